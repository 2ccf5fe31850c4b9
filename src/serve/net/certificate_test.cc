#include "serve/net/certificate_test.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <memory>

namespace emblem {
namespace {

template <class Write>
std::string pem_text(Write&& write) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> memory(BIO_new(BIO_s_mem()), &BIO_free);
  EXPECT_EQ(write(memory.get()), 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &data);
  return {data, static_cast<size_t>(size)};
}

}  // namespace

CertificateFiles write_certificate(const std::string& folder) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(certificate.get(), names, -1);
  X509_EXTENSION_free(names);
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);

  CertificateFiles files{folder + "/certificate.pem", folder + "/key.pem", ""};
  files.certificate_text =
      pem_text([&](BIO* to) { return PEM_write_bio_X509(to, certificate.get()); });
  std::ofstream(files.certificate) << files.certificate_text;
  std::ofstream(files.key) << pem_text([&](BIO* to) {
    return PEM_write_bio_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return files;
}

}  // namespace emblem
