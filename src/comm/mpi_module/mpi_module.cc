#include "comm/mpi_module/mpi_module.h"

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

// MPI counts are 32-bit.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr uint64_t kTags = 32768;  // MPI promises tags up to 32767

MPI_Comm ranks = MPI_COMM_NULL;
int own = 0, count = 0;
std::vector<MPI_Request> requests;
std::vector<int> expected_bytes;  // size of each request; -1: it sends
char message[MPI_MAX_ERROR_STRING + 128];

const char* error_text(int error) {
  if (error == MPI_SUCCESS) return nullptr;
  int size = 0;
  MPI_Error_string(error, message, &size);
  message[size] = '\0';
  return message;
}

const char* open_mpi(int* rank, int* size) {
  int is_initialized = 0, provided = 0;
  MPI_Initialized(&is_initialized);
  if (is_initialized != 0) return "MPI was initialized before";
  if (const char* error =
          error_text(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided)))
    return error;
  if (const char* error = error_text(MPI_Comm_dup(MPI_COMM_WORLD, &ranks))) return error;
  MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN);
  MPI_Comm_rank(ranks, &own);
  MPI_Comm_size(ranks, &count);
  *rank = own;
  *size = count;
  return nullptr;
}

const char* version_text() {
  static char name[MPI_MAX_LIBRARY_VERSION_STRING + 1];
  int size = 0;
  MPI_Get_library_version(name, &size);
  name[size] = '\0';
  return name;
}

// Calls begin(data, bytes) for parts of at most 1 GiB; the first error ends it.
template <class Begin>
int for_parts(const EmblemMpiPiece& piece, const Begin& begin) {
  for (uint64_t done = 0; done < piece.bytes; done += kMostBytes) {
    const auto bytes = static_cast<int>(std::min(kMostBytes, piece.bytes - done));
    const int error = begin(static_cast<char*>(piece.data) + done, bytes);
    if (error != MPI_SUCCESS) return error;
  }
  return MPI_SUCCESS;
}

const char* start(const EmblemMpiPiece* send, const EmblemMpiPiece* receive, uint64_t number) {
  requests.clear();
  expected_bytes.clear();
  const int tag = static_cast<int>(number % kTags);
  for (int step = 1; step < count; ++step) {
    const int from = (own + count - step) % count;
    const int error = for_parts(receive[from], [&](char* data, int bytes) {
      expected_bytes.push_back(bytes);
      return MPI_Irecv(data, bytes, MPI_BYTE, from, tag, ranks,
                       &requests.emplace_back(MPI_REQUEST_NULL));
    });
    if (error != MPI_SUCCESS) return error_text(error);
  }
  for (int step = 1; step < count; ++step) {
    const int to = (own + step) % count;
    const int error = for_parts(send[to], [&](char* data, int bytes) {
      expected_bytes.push_back(-1);
      return MPI_Isend(data, bytes, MPI_BYTE, to, tag, ranks,
                       &requests.emplace_back(MPI_REQUEST_NULL));
    });
    if (error != MPI_SUCCESS) return error_text(error);
  }
  return nullptr;
}

// MPI reports a message that is longer than expected; one that is shorter shows in its status.
const char* check_sizes(const std::vector<MPI_Status>& statuses) {
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (expected_bytes[i] < 0) continue;
    int got = 0;
    MPI_Get_count(&statuses[i], MPI_BYTE, &got);
    if (got == expected_bytes[i]) continue;
    std::snprintf(message, sizeof(message), "rank %d sends %d bytes, rank %d expects %d",
                  statuses[i].MPI_SOURCE, got, own, expected_bytes[i]);
    return message;
  }
  return nullptr;
}

const char* test(int* done) {
  std::vector<MPI_Status> statuses(requests.size());
  const int error =
      MPI_Testall(static_cast<int>(requests.size()), requests.data(), done, statuses.data());
  if (error == MPI_ERR_IN_STATUS)
    for (const MPI_Status& status : statuses)
      if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
        return error_text(status.MPI_ERROR);
  if (error != MPI_SUCCESS) return error_text(error);
  return *done != 0 ? check_sizes(statuses) : nullptr;
}

void close_mpi() {
  MPI_Comm_free(&ranks);
  MPI_Finalize();
}

constexpr EmblemMpi kModule = {kMpiModuleVersion, open_mpi, version_text, start, test, close_mpi};

}  // namespace

extern "C" __attribute__((visibility("default"))) const EmblemMpi* emblem_mpi_module() {
  return &kModule;
}
