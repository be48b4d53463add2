// The checkpoint as Python holds it: the core's object and the identity that hashlib computed from its parts.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/checkpoint.h"

struct CheckpointHandle {
  std::shared_ptr<const kernels::Checkpoint> core;
  std::string identity;
};
