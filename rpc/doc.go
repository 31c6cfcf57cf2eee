// Package rpc lets games call methods of each other's actors over QUIC, in the manner of
// Unreal Engine: calls to the server, to the client that owns the actor, or to all clients.
//
// A [Class] and its calls are declared once, in a package that client and server
// share. Each side makes a [World] and binds behaviour to the class there with
// [Bind] and [On]. [Listen] and [Dial] connect worlds.
//
// [World.Run] drives a world, or [World.Tick] in the game's own loop. Each tick consists of a
// [World.Dispatch], which handles what has arrived, and a [World.Flush], which sends.
// Everything that concerns actors happens on the goroutine that drives the world.
//
//	var (
//		Player = rpc.NewClass("Player")
//		Fire   = rpc.Server[FireArgs](Player, "Fire", rpc.Reliable, rpc.RateLimit(20))
//		Hit    = rpc.Client[HitArgs](Player, "Hit", rpc.Reliable)
//		Blast  = rpc.Multicast[BlastArgs](Player, "Blast", rpc.Unreliable)
//	)
//
// # Where a call runs
//
//	handle     called on   the actor is owned by      it runs on
//	Server     server      anybody or nobody          the server
//	Server     client      this client                the server
//	Server     client      another client or nobody   nowhere: Call returns ErrNotOwner
//	Client     server      a client                   that client
//	Client     server      nobody                     the server
//	Client     client      anybody                    this client
//	Multicast  server      anybody or nobody          the server and every client for which the actor is open
//	Multicast  client      anybody                    this client
//
// The option [SkipOwner] of a Multicast leaves out the owner's client. The option
// [AnyCaller] of a Server RPC lets every client call it. The server drops and counts
// a call from a client that may not make it.
//
// A call that runs in the world that made it waits for the next Dispatch, like a
// call from the peer. Calls have no result.
//
// Reliable calls of one actor run in the order in which they were made, unless a method
// waits for an actor in its argument ([WaitForActors]). There is no order between actors.
// If a client doesn't have the actor yet, the first call to
// that client opens the actor there first.
//
// # Requests
//
// A [Request] is a call with an answer. It consists of two reliable calls on the
// actor's channel, a question and its answer. [ServerRequest] declares a request that
// the owner makes and the server answers. [ClientRequest] declares the reverse.
// [OnRequest] binds the function that answers.
//
// [Request.Ask] waits for the answer, on any goroutine except the world's. On the world's
// goroutine use [Request.Then], or [Request.ThenWithin] with a time limit.
//
// A handler that has to wait continues on a goroutine of its own with [Request.Go]. A handler
// that gets its answer in another way gives it with [Request.Later].
//
// Each request ends exactly once: with its answer, at its time limit, or when its actor's
// channel closes or its connection ends. An error is a [*RequestError]. If the class declares
// an error with [Class.Errors], errors.Is recognises the error on the asker's side.
//
// A framework can send messages before any actor exists, with [Conn.SendMessage].
// The peer's Config.OnMessage receives them.
//
// # State
//
// A [State] is a plain struct, defined by the game, that the server replicates. A [List] is a
// keyed list that the server replicates. A client holds the newest values it has received. A
// [Ref] identifies an actor on all sides, in arguments, states and lists.
//
// # Which client has which actor
//
// An actor is open for its owner. With [AlwaysRelevant] it is open for every client. If its
// class has [At] or [Relevant], the actor is also open for the clients that see it, and stays
// open for 5 s after they last saw it. Otherwise it is open for the connections named by
// [Actor.OpenTo]. [Conn.SetView] sets the point from which a client sees.
//
// # The life of an actor
//
// The server spawns an actor with [Spawn]. With [Place] it places an actor that has a name in
// a level. The owner of an actor is a connection, another actor, or the server itself. The
// chain of owners determines which client owns the actor. Each client for which the actor is
// open has a copy. [OnOpenAcked] runs on the server when the client has acknowledged the open.
//
// A copy ends, and [OnClose] runs, when the actor is destroyed, when it closes for
// that client, or when the connection ends. While the actor is dormant
// ([Actor.SetDormant]), the copy stays without a channel. When the actor is torn off
// ([Actor.TearOff]), the copy stays as the client's own.
//
// A [CloseReason] is one of Unreal's five reasons, and documents what a client does for each.
// [NewComponent] gives an actor more objects, which share its channel.
//
// Config.Authenticate admits a client by its token alone. Config.Login then admits it
// with knowledge of the world (UE: PreLogin, Login). OnConnect is the first place
// from which calls reach the client (UE: PostLogin).
//
// # Two kinds of validation
//
// An argument's method Validate() error reports whether the argument is well formed, whoever
// sent it. Call runs Validate before it sends, and each side runs Validate before any handler.
//
// A function bound with [Check] reports on the server whether the caller may make
// this call now.
//
// If either returns an error on the server, the server closes the caller's connection
// with [ValidationFailed], because only a cheat sends such a call. If an honest
// client may ask too late, refuse the call in the handler instead.
//
// A world also makes calls to itself, such as those of a listen server's host. For these,
// only Call runs Validate, and returns its error. Check is not called.
//
// An honest client never sends an argument that Validate refuses, because Call
// returns the error. To provoke [ValidationFailed] in a test, keep the bound in a
// variable and lower it while the call is in flight. Alternatively refuse the call
// in Check, which only the server calls.
//
// # Floods
//
// [RateLimit] limits the calls of one method from one connection. Config.DispatchTime limits
// how long the handlers of one connection may run in a Dispatch. Config.DoS limits everything
// that a client calls, and recognises the client by its identity. Package dos describes it.
//
// # Diagnostics
//
// [Stats] of a connection prints itself as a table. [World.StatNet] returns a table
// for the whole world, like UE's stat net.
//
// [Channel.Gate] names what calls wait for: the reliable buffer, the end of an
// earlier copy, the peer, the rate or the path.
//
// [Config].Trace writes a file for ui.perfetto.dev, as -NetTrace does for Networking
// Insights. The file shows calls and the packets that carry them, acks, losses,
// resends, handlers, queues and round trip times.
//
// [World.SetLogLevel] enables the records of one category, like UE's LogNet,
// LogNetTraffic or LogRep.
//
// # Arguments
//
// Arguments are bools, numbers, strings, times, arrays, slices, maps, structs, and pointers to
// them. They are encoded in msgpack. A struct is encoded as an array of its exported fields,
// without those that have the tag `msgpack:"-"`. [Raw] is sent as it is. [None] takes no bytes.
//
// A pointer may be a field, an element or a map value, and may be nil there. The
// argument itself must be a value: Server[*int] and Server[*big.Int] are refused,
// Server[big.Int] is not. The following are also refused, at the declaration:
//
//   - interfaces, channels and functions
//   - types that read msgpack themselves
//   - structs without a field that is sent, such as an [Actor], because they would arrive empty
//   - in maps, types that encode themselves with a pointer receiver, because keys and
//     map keys and values have no address; use pointers instead, as in map[string]*big.Int
//   - pointers to pointers, and structs that embed a pointer
//   - structs of which two fields have the same name, including fields that embedding promotes
//
// Types can encode themselves with the methods of package encoding:
//
//	the argument itself, an array's element   AppendBinary and UnmarshalBinary, if it has both
//	otherwise, and inside of other values     MarshalBinary and UnmarshalBinary, else MarshalText and UnmarshalText
//
// Such a type can quantise an argument. The tags quant, range and unit are for states and
// lists only, and are refused in arguments. A struct that a state and a call share can't have
// them: declare the struct once with the tags and once without, and convert one to the other.
//
// A type that has AppendBinary without MarshalBinary is refused inside other values.
// MarshalJSON is never called. The bytes that such a type produces are not examined.
//
// A [time.Time] inside other values is an instant, and is received in the receiver's
// zone. As the argument itself it keeps the offset of its zone. The zone's name and
// the monotonic clock are lost in both cases.
//
// A quiver tag bounds a string or []byte in bytes, and a slice or map in elements:
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//	Team  [3]string           `quiver:"max=20"`                // bytes of each: an array has its length already
//	Lines [3][]string         `quiver:"max=9,each=80"`         // elements of each of the three, then bytes of each of those
//
// "max" bounds the field, "each" bounds the values inside it, level by level, and "key" bounds
// the keys of the map whose bound precedes it. Arrays and pointers are skipped, so "max"
// belongs to the first level that needs a bound, and "each" is never used without "max".
//
// A method MaxEncodedSize() int bounds the values of its type as a whole.
//
// Call refuses what the other end would refuse. It returns [ErrTooLong] for a value
// that exceeds a bound. It also refuses strings that aren't valid UTF-8, and values
// that need much more memory than bytes.
//
// Everything that arrives is checked before it is decoded. A length is checked against the
// bytes present and against its bound, a number against its type, and a string for valid
// UTF-8. The keys of a map are checked for duplicates and NaN. Values nest at most 64 levels
// deep, and take at most 64 KiB plus 64 bytes of memory for each byte on the wire. A message
// that breaks one of these rules closes the connection with [PayloadFail].
//
// Some things aren't checked, and Validate should refuse them. Floats other than map
// keys may be NaN or infinite. A comparison with NaN is false, so state what is
// allowed, as in !(x >= 0 && x <= 1). Strings may contain control characters. [Raw],
// []byte and types that encode themselves may contain any bytes.
//
// Both ends compare their classes when they connect: names, directions, deliveries, and the
// fields of every argument with their bounds. Ends that differ don't connect. If the server
// has Config.ExplainMismatch, they report the first difference.
// # Lossy and long paths
//
// With Config.Sealed on both ends, a connection sends everything in sealed packets:
// encrypted UDP datagrams on the same socket as QUIC's. Their keys come from the
// same TLS connection, and they are sent to no other address. Their congestion
// control doesn't slow down for random loss.
//
// While sealed packets don't get through, QUIC carries everything, as it does without the
// option. [Conn.Sealed] and [Stats] report which of the two is in use, and why.
//
// # Trust
//
// A server proves its identity with its certificate. Package cert has Pinned for a
// certificate that no authority signed. A client proves its identity with its token,
// which Config.Authenticate turns into an identity.
//
// WIRE.md specifies the bytes of all messages, and what a peer must not send.
package rpc
