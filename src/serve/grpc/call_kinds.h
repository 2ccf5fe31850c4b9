// serve/grpc/call_kinds.h - makes the calls of serve/grpc/methods.h. Only for the server's own .cc
// files.
#pragma once

#include <memory>

#include "serve/grpc/call.h"

namespace emblem {

using MakeGrpcCall = std::shared_ptr<GrpcCall>(GrpcFrontEnd& front, const GrpcMethod& method,
                                               const Http2Peer& peer, Http2Stream& stream);

MakeGrpcCall make_answer_call;   // kAnswer, kAnswerEach
MakeGrpcCall make_infer_call;    // kInfer, kInferStream
MakeGrpcCall make_health_watch;  // kHealthWatch

}  // namespace emblem
