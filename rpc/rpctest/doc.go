// Package rpctest plays a game over a bad network in the game's own go test. A
// server and its clients, each in a world of the game's own, run in the virtual
// time of testing/synctest. Minutes of play take moments, and with the same seed
// the same thing happens to the same packets.
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
// A [Network] drives all worlds in ticks, on the goroutine of the test. There are 30
// ticks a second unless SetTickRate sets another rate. Handlers run on that
// goroutine, and the test may look at the game's state between two calls of Network.
// The worlds must not be driven in any other way.
//
// Only Client, Join, Advance, Until and UntilDone tick. A test must not wait in another way for
// something that a tick does, for instance on a channel that the end of a transfer closes. Wait
// with Until or [Network.UntilDone], or on another goroutine while the test advances. If a test
// waits for an hour of virtual time without a tick, it panics with a message that says so.
//
// Calls that the test makes between two Advances are sent at once. Each reliable call
// then takes an entry of the reliable buffer, and the 256th call on an actor overflows
// it. In a game's tick, calls wait for the Flush, and small ones share an entry. To
// test that, make the calls in [Network.OnTick].
//
// Clients have separate paths, so their copies of an actor differ in age. What one client has
// after Advance, another may still wait for, because its packet was lost. Use [Network.Until]
// for each client instead of a time that was enough for one of them.
//
// The seed also determines the random numbers of connections, and the program runs on one
// processor during Run. QUIVER_SEED can therefore repeat a failure.
//
// For that, the game must draw its own random numbers from [Network.Seed]. It must not
// range over a map where it calls, starts or spawns, because the order of a map is
// random. The order of its own goroutines may still vary. All orders may vary under the
// race detector, which shuffles goroutines on purpose, and in one of some hundred runs
// on a machine that is busy with other work.
//
// Each client has its own path to the server and back. The
// [emulation.Settings] apply to it in each direction.
//
// [emulation.Settings].Rate is the server's uplink, which its clients share, and each
// client's own uplink. [Network.EmulateOne] gives one client a slow downlink after the
// server's uplink. [emulation.Settings].IncomingRate is the downlink of each client. The
// server's own downlink has no bottleneck.
//
// Each of n clients has an n-th of the server's uplink, even while the others receive nothing. A
// transfer to one of many therefore takes up to n times as long as over a real uplink. If Rate
// limits a path, the carrier behaves like a congestion control that knows the rate.
//
// A server may restart. The test closes its world with w.Close(t.Context(),
// rpc.HostClosedConnection, "restart"), and [Network.Server] puts another in its place.
//
// [Network.Crash] ends a client or a server without a close. A client returns by
// [Network.Client] as a new world with the same Token. The server keeps the client's old
// connection until that connection has waited too long for an answer, or
// Config.MaxConnsPerIdentity ends it.
//
// The network has no TLS, no QUIC and no sealed packets. The option rpc.Config.Emulation
// shows in real time how a path affects them. Nor does it have QUIC's keep-alives and idle
// timeout: a path that is dark ends a connection only if something waits for an answer.
//
// Clients keep their addresses. When an address changes in a real network,
// QUIC and sealed packets continue without the game. The game only sees a
// moment without packets, as after [Network.Dark].
//
// A game may use its normal config. The fields Sealed, NoJumbo, Emulation, IdleTimeout and
// KeepAlive of rpc.Config have no effect here, nor does [rpc.World.SetEmulation]. The network
// is as set by [Run], [Network.Emulate] and [Network.EmulateOne].
package rpctest
