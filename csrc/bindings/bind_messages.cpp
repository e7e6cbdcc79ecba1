// Messages between a loader's process and its worker processes.
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "bindings/bindings.h"
#include "bindings/class.h"
#include "processes/message_socket.h"
#include "python/without_gil.h"

namespace py = pybind11;

namespace fastload {
namespace {

using Clock = std::chrono::steady_clock;

bool has_news(const MessageSocket& socket) { return socket.has_message() || socket.has_ended(); }

void exchange(MessageSocket& socket) {
    socket.flush();
    socket.receive();
}

// Sends and receives, until one of the sockets has a message or has ended, for at most `seconds`. Runs signal handlers.
// Returns whether one has.
bool wait_for_message(const py::list& sockets, double seconds) {
    std::vector<MessageSocket*> waited;
    bool is_any = false;
    for (const py::handle each : sockets) {
        auto& socket = each.cast<MessageSocket&>();
        exchange(socket);
        is_any = is_any || has_news(socket);
        waited.push_back(&socket);
    }
    const std::chrono::duration<double> limit(seconds);
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(limit);
    while (!is_any) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
        if (left.count() <= 0) return false;
        without_gil([&] { wait_for_any({waited.data(), waited.size()}, static_cast<int>(left.count())); });
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
        for (MessageSocket* socket : waited) {
            exchange(*socket);
            is_any = is_any || has_news(*socket);
        }
    }
    return true;
}

// The number of the oldest message and its bytes; None if none has come.
py::object first_message(const MessageSocket& socket) {
    if (!socket.has_message()) return py::none();
    return py::make_tuple(socket.num_dropped(), bytes_of(socket.first()));
}

// Drops a message and returns true, unless a signal handler has taken and dropped it meanwhile.
bool drop_message(MessageSocket& socket, std::uint64_t number) {
    if (!socket.has_message() || socket.num_dropped() != number) return false;
    socket.drop_first();
    return true;
}

// A number of a descriptor in Python would be lost if a signal handler raised before it is stored.
py::tuple new_sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw_os_error(errno);
    UniqueFd descriptors[] = {UniqueFd(ends[0]), UniqueFd(ends[1])};
    py::object sockets[2];
    for (int at = 0; at < 2; ++at) {
        auto socket = std::make_unique<MessageSocket>(descriptors[at].get());
        static_cast<void>(descriptors[at].release());
        sockets[at] = py::cast(std::move(socket));
    }
    return py::make_tuple(sockets[0], sockets[1]);
}

}  // namespace

void bind_messages(py::module_& m) {
    Class<MessageSocket>(m, "MessageSocket")
        .def(py::init<int>(), py::arg("descriptor"))
        .def("put", [](MessageSocket& socket, const py::bytes& message) { socket.put(span_of(message)); })
        .def("first", &first_message)
        .def("drop", &drop_message)
        .def("flush", &MessageSocket::flush)
        .def("close", &MessageSocket::close)
        .def_property_readonly("descriptor", &MessageSocket::descriptor)
        .def_property_readonly("has_unsent", &MessageSocket::has_unsent)
        .def_property_readonly("has_ended",
                               [](const MessageSocket& socket) { return socket.has_ended() && !socket.has_message(); });
    m.def("new_sockets", &new_sockets);
    m.def("wait_for_message", &wait_for_message, py::arg("sockets"), py::arg("seconds"));
}

}  // namespace fastload
