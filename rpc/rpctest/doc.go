// Package rpctest plays a game over a bad network in the game's own go test. A server and
// its clients, each in a world of the game's, run in the virtual time of testing/synctest.
// Minutes of play take moments, and the same seed gives the same packets the same fates.
//
//	func TestDuelOnABadNetwork(t *testing.T) {
//		rpctest.Run(t, rpctest.Bad, func(t *testing.T, net *rpctest.Network) {
//			server := net.Server(newServerWorld())
//			alice, bob := net.Client(newClientWorld()), net.Client(newClientWorld())
//			net.Advance(5 * time.Second)
//			…
//		})
//	}
//
// A [Network] drives all worlds in ticks, 30 a second unless SetTickRate says otherwise,
// on the goroutine of the test. Handlers run there, and the test may look at the game's
// state between two calls of Network. The worlds must not be driven in any other way.
//
// Only Client, Join, Advance, Until and UntilDone tick. So a test must not wait in another way
// for something that a tick does, for instance on a channel that the end of a transfer closes. It
// waits with Until or [Network.UntilDone], or on another goroutine while the test advances. If a
// test waits for an hour of virtual time without a tick, it panics with a message that says so.
//
// Calls that the test makes between two Advances are sent at once, so each
// reliable call takes an entry of the reliable buffer, and the 256th call on an
// actor overflows it. In a game's tick calls wait for the Flush, and small ones
// share an entry. To test that, make the calls in [Network.OnTick].
//
// Clients have separate paths, so their copies of an actor are not of the same age: what
// one client has after Advance, another may still wait for, because its packet was lost.
// Use [Network.Until] for each client instead of a time that was enough for one of them.
//
// The seed also decides the random numbers of connections, and the program runs on one
// processor during Run. So QUIVER_SEED repeats a failure. For that, the game must draw its
// own random numbers from [Network.Seed], and must not range over a map where it calls,
// starts or spawns, because the order of a map is random. The order of its own goroutines
// may still vary. So may all orders under the race detector, which shuffles goroutines on
// purpose, and in one of some hundred runs on a machine that is busy with other work.
//
// Each client has its own path to the server and back, to which the [emulation.Settings] apply in
// each direction. [emulation.Settings].Rate is the server's uplink, which its clients share, and
// each client's own uplink; [Network.EmulateOne] gives one client a slow downlink after the
// server's uplink. [emulation.Settings].IncomingRate is the downlink of each client; the server's
// own downlink has no bottleneck. Each of n clients has an n-th of the server's uplink, even while
// the others receive nothing: a transfer to one of many takes up to n times as long as over a real
// uplink. If Rate limits a path, the carrier behaves like a congestion control that knows the rate.
//
// A server may restart: the test closes its world with w.Close(t.Context(),
// rpc.HostClosedConnection, "restart"), and [Network.Server] puts another in its place.
//
// [Network.Crash] ends a client or a server without a close. A client returns by [Network.Client]
// as a new world with the same Token. The server keeps the client's old connection until that has
// waited too long for an answer, or Config.MaxConnsPerIdentity ends it.
//
// The network has no TLS, no QUIC and no sealed packets; the option rpc.Config.Emulation shows
// in real time how a path affects them. It has no keep-alives and no idle timeout of QUIC
// either: a path that is dark ends a connection only if something waits for an answer. Clients
// keep their addresses. When an address changes in a real network, QUIC and sealed packets
// continue without the game, which only sees a moment without packets, as after [Network.Dark].
//
// So a game may use its normal config, but the fields Sealed, NoJumbo, Emulation, IdleTimeout
// and KeepAlive of rpc.Config have no effect here, nor does [rpc.World.SetEmulation]: the
// network is as set by [Run], [Network.Emulate] and [Network.EmulateOne].
package rpctest
