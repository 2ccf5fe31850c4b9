// serve/net/certificate_test.h - a certificate for "localhost" that signs itself, for tests of
// TLS.
#pragma once

#include <string>

namespace emblem {

struct CertificateFiles {
  std::string certificate, key;  // paths of PEM files
  std::string certificate_text;
};

CertificateFiles write_certificate(const std::string& folder);

}  // namespace emblem
