#include "image/steps/apply_op.h"

#include "image/plan/argument_checks.h"

namespace fastload {

std::string ApplyOp::check() const {
    if (op == nullptr) return sentence("op", "an operation", "none");
    return first_of(op->check(), MaybeStep::check());
}

std::optional<LongSize> ApplyOp::size_after(std::optional<ImageSize> before) const {
    if (!before) return std::nullopt;
    const ImageSize after = op->size_after(*before);
    return probability ? common_size(after, before) : after;
}

Status ApplyOp::resolve(DrawSource* draws, Resolver* resolver) const noexcept {
    if (happens(draws)) list_op(*op, resolver);
    return Status::ok();
}

}  // namespace fastload
