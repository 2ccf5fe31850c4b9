// serve/net/tls.h - the TLS of a server.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "serve/net/options.h"

namespace emblem {

// Null when the options name no certificate. `alpn` as in NetServer; a client that offers only
// other protocols is refused. Throws kInvalidArgument for files that cannot be used.
std::unique_ptr<boost::asio::ssl::context> make_tls(const NetOptions& options,
                                                    const std::string& alpn);

}  // namespace emblem
