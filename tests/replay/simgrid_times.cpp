// SPDX-License-Identifier: MIT
//
// See simgrid_times.h. SimGrid's corrections for TCP are switched off: links between devices have none.
#include "simgrid_times.h"

#include <functional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace
{

struct Cluster {
    s4u::Engine engine;
    std::vector<s4u::Host *> hosts;
};

void no_corrections()
{
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/bandwidth-factor:1");
    s4u::Engine::set_config("network/latency-factor:1");
    s4u::Engine::set_config("network/weight-S:0");
    s4u::Engine::set_config("network/TCP-gamma:0");
    s4u::Engine::set_config("network/crosstraffic:0");
}

void build(Cluster &cluster, int devices, double bytes_per_s, double latency_s)
{
    auto *zone = s4u::create_full_zone("node");
    std::vector<const s4u::Link *> out, in;
    for (int i = 0; i < devices; i++) {
        const std::string number = std::to_string(i);
        cluster.hosts.push_back(zone->create_host("device" + number, 1e9)->seal());
        out.push_back(zone->create_link("out" + number, bytes_per_s)->set_latency(latency_s)->seal());
        in.push_back(zone->create_link("in" + number, bytes_per_s)->set_latency(0)->seal());
    }
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++)
            if (from != to)
                zone->add_route(cluster.hosts[from]->get_netpoint(), cluster.hosts[to]->get_netpoint(), nullptr,
                                nullptr, {s4u::LinkInRoute(out[from]), s4u::LinkInRoute(in[to])}, false);
    zone->seal();
}

void send(int to, const std::string &what, double bytes, std::vector<s4u::CommPtr> &pending)
{
    static char payload;
    auto *box = s4u::Mailbox::by_name(what + ">" + std::to_string(to));
    pending.push_back(box->put_async(&payload, static_cast<uint64_t>(bytes)));
}

void receive(int at, const std::string &what)
{
    s4u::Mailbox::by_name(what + ">" + std::to_string(at))->get<char>();
}

void wait_all(std::vector<s4u::CommPtr> &pending)
{
    for (const auto &comm : pending)
        comm->wait();
    pending.clear();
}

void star_root(int devices, double bytes, const s4u::BarrierPtr &arrived)
{
    std::vector<s4u::CommPtr> pending;
    std::vector<char *> got(devices);
    for (int r = 1; r < devices; r++)
        send(r, "out", bytes, pending);
    wait_all(pending);
    arrived->wait();
    for (int r = 1; r < devices; r++) // posted before any of them arrives: they share the link
        pending.push_back(s4u::Mailbox::by_name("back" + std::to_string(r) + ">0")->get_async(&got[r]));
    wait_all(pending);
}

void star_leaf(int own, double bytes, const s4u::BarrierPtr &arrived)
{
    std::vector<s4u::CommPtr> pending;
    receive(own, "out");
    arrived->wait();
    send(0, "back" + std::to_string(own), bytes, pending);
    wait_all(pending);
}

void ring_member(int own, int devices, double part)
{
    std::vector<s4u::CommPtr> pending;
    for (int step = 0; step < 2 * (devices - 1); step++) {
        const std::string name = "step" + std::to_string(step);
        send((own + 1) % devices, name, part, pending);
        receive(own, name);
        wait_all(pending);
    }
}

// SimGrid has one engine in the life of a process.
double in_a_process(const std::function<double()> &simulate)
{
    int ends[2];
    double seconds = -1;
    if (pipe(ends) != 0)
        return -1;
    const pid_t child = fork();
    if (child == 0) {
        seconds = simulate();
        _exit(write(ends[1], &seconds, sizeof(seconds)) == sizeof(seconds) ? 0 : 1);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &seconds, sizeof(seconds)) != sizeof(seconds))
        seconds = -1;
    close(ends[0]);
    if (child > 0)
        waitpid(child, nullptr, 0);
    return seconds;
}

double run(int devices, double bytes_per_s, double latency_s, const std::function<void(Cluster &)> &cast)
{
    return in_a_process([&] {
        char name[] = "simgrid", quiet[] = "--log=root.thres:error", *argv[] = {name, quiet, nullptr};
        int argc = 2;
        Cluster cluster{s4u::Engine(&argc, argv), {}};
        no_corrections();
        build(cluster, devices, bytes_per_s, latency_s);
        cast(cluster);
        cluster.engine.run();
        return s4u::Engine::get_clock();
    });
}

} // namespace

double simgrid_star(int devices, double bytes_per_s, double latency_s, double bytes)
{
    return run(devices, bytes_per_s, latency_s, [&](Cluster &cluster) {
        const auto arrived = s4u::Barrier::create(devices);
        s4u::Actor::create("root", cluster.hosts[0], [=] { star_root(devices, bytes, arrived); });
        for (int r = 1; r < devices; r++)
            s4u::Actor::create("leaf", cluster.hosts[r], [=] { star_leaf(r, bytes, arrived); });
    });
}

double simgrid_ring(int devices, double bytes_per_s, double latency_s, double bytes)
{
    return run(devices, bytes_per_s, latency_s, [&](Cluster &cluster) {
        for (int r = 0; r < devices; r++)
            s4u::Actor::create("member", cluster.hosts[r], [=] { ring_member(r, devices, bytes / devices); });
    });
}
