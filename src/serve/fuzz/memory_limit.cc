// Fuzzers of the server have little memory: an input that makes one large allocation, or many small
// ones, is a finding.
extern "C" const char* __asan_default_options() {
  return "max_allocation_size_mb=64:hard_rss_limit_mb=1024:quarantine_size_mb=64";
}
