// What only precompiles headers needs a source.
