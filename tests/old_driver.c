/* A driver that can only return its version, CUDA 12.4. */
#include <stddef.h>
#include <string.h>

int cuInit(unsigned flags) {
  (void)flags;
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 12040;
  return 0;
}
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
  (void)version, (void)flags;
  *function = strcmp(name, "cuInit") == 0               ? (void*)cuInit
              : strcmp(name, "cuDriverGetVersion") == 0 ? (void*)cuDriverGetVersion
              : strcmp(name, "cuGetProcAddress") == 0   ? (void*)cuGetProcAddress_v2
                                                        : NULL;
  if (status != NULL) *status = *function == NULL;
  return *function == NULL ? 500 : 0;
}
