// Keeps a library that has only CUDA sources buildable without CUDA.
