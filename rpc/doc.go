// Package rpc lets games call each other's actors over QUIC, as Unreal Engine does. It has
// classes of actors, and calls to the server, to the owning client, or to all clients.
//
// A [Class] and its calls are declared once, in a package that client and server share. Each side
// binds behaviour to it with [Bind] and [On], in a [World] of its own. Everything that concerns
// actors happens on the goroutine that drives the world. [Listen] and [Dial] connect worlds.
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
// [SkipOwner] in the declaration of a Multicast leaves out the owner's client. [AnyCaller]
// in the declaration of a Server RPC lets every client call it. A call from a client that
// may not make it is dropped and counted. A call that runs in the world in which it was
// made waits for the next Dispatch, as calls from the peer do. Calls have no result.
//
// Reliable calls of one actor run in the order in which they were made. There is no order
// between actors. The first call to a client that does not have the actor opens it there first.
//
// # Requests
//
// A [Request] is a call with an answer. It consists of two reliable calls on the actor's channel,
// a question and its answer. [ServerRequest] declares a request that the owner makes and the
// server answers; [ClientRequest] is the reverse. [OnRequest] binds the function that answers.
//
// [Request.Ask] waits for the answer, on any goroutine except the world's. On the
// world's goroutine use [Request.Then], or [Request.ThenWithin] with a time limit.
// A handler that has to wait continues on its own goroutine with [Request.Go]. A
// handler that gets its answer in another way gives it with [Request.Later].
//
// Each request ends exactly once: with its answer, or when its time is over, its actor's
// channel closes or its connection ends. An error is a [*RequestError]. Errors that the
// class declares with [Class.Errors] are the same for the asker and the handler.
//
// A framework can send messages before any actor exists: see [Conn.SendMessage]
// and Config.OnMessage.
//
// # State
//
// A [State] is a plain struct of the game's own that the server replicates, and a
// [List] is a keyed list. A client has the newest values of both that it has
// received. A [Ref] identifies an actor on all sides, in arguments, states and lists.
//
// # Which client has which actor
//
// An actor is open for its owner. With [AlwaysRelevant] it is open for every client. If its class
// has [At] or [Relevant], it is also open for clients that see it, and for 5 s longer. Otherwise
// it is open for those that [Actor.OpenTo] names. [Conn.SetView] sets from where a client sees.
//
// # The life of an actor
//
// The server spawns an actor with [Spawn], or places one that has a name in a level with
// [Place]. The owner of an actor is a connection, another actor, or the server itself:
// the chain of owners determines which client owns it. Each client for which it is open
// has a copy. [OnOpenAcked] runs on the server when the client has acknowledged the open.
//
// A copy ends, and [OnClose] runs, when the actor is destroyed, when it closes for that
// client, or when the connection ends. A copy stays without a channel while the actor
// is dormant ([Actor.SetDormant]). It stays as the client's own when the actor is torn
// off ([Actor.TearOff]). [CloseReason] has Unreal's five reasons, and what a client
// does for each. [NewComponent] gives an actor more objects, which share its channel.
//
// A client is admitted by Config.Authenticate, which knows only its token, and
// then by Config.Login, which knows the world (UE: PreLogin, Login). OnConnect
// is the first place from which calls reach it (UE: PostLogin).
//
// # Two kinds of validation
//
// A method Validate() error of an argument reports whether the argument is well formed, whoever
// sent it. Call calls Validate before it sends, and each side calls it before any handler. A
// function bound with [Check] reports on the server whether the caller may make this call now.
// If either returns an error on the server, the server closes the caller's connection with
// [ValidationFailed], because only a cheat sends such a call. Refuse in the handler what an
// honest client may ask too late. For calls that a world makes to itself, such as those of a
// listen server's host, only Call calls Validate, and returns its error; Check is not called.
//
// An honest client never sends an argument that Validate refuses, because Call returns the
// error. To provoke [ValidationFailed] in a test, keep the bound in a variable and lower it
// while the call is in flight, or refuse the call in Check, which only the server calls.
//
// # Floods
//
// [RateLimit] limits one method of one connection. Config.DispatchTime limits how
// long the handlers of one connection may run in a Dispatch. Config.DoS limits
// everything that a client, recognised by its identity, calls: see package dos.
//
// # Diagnostics
//
// [Stats] of a connection prints itself as a table, and [World.StatNet] returns one for the
// world: UE's stat net. [Channel.Gate] names what calls wait for: the reliable buffer, the end of
// an earlier copy, the peer, the rate or the path. [Config].Trace writes a file for
// ui.perfetto.dev, as -NetTrace does for Networking Insights: calls and the packets in which they
// are sent, acks, losses and resends, handlers, queues and round trip times. [World.SetLogLevel]
// enables the records of one category, as UE's LogNet, LogNetTraffic or LogRep do.
//
// # Arguments
//
// Arguments are values of bools, numbers, strings, times, arrays, slices, maps, structs, and
// pointers to them. They are encoded in msgpack, structs as arrays of their exported fields. [Raw]
// is sent as it is, and [None] takes no bytes. A field with the tag `msgpack:"-"` is not sent.
//
// A pointer may be a field, an element or a value of a map, and may be nil there. The
// argument itself must be a value: Server[*int] and Server[*big.Int] are refused,
// Server[big.Int] is not. The following are also refused, at the declaration:
//
//   - interfaces, channels and functions
//   - types that read msgpack themselves
//   - structs without a field that is sent, such as an [Actor], because they would arrive empty
//   - in maps, types that encode themselves with a pointer receiver, because keys and
//     values of a map have no address; use pointers instead, as in map[string]*big.Int
//   - pointers to pointers, and structs that embed a pointer
//   - structs of which two fields have the same name, including fields that embedding promotes
//
// Some types encode themselves, by the methods of package encoding:
//
//	the argument itself, an array's element   AppendBinary and UnmarshalBinary, if it has both
//	otherwise, and inside of other values     MarshalBinary and UnmarshalBinary, else MarshalText and UnmarshalText
//
// Such a type can quantise an argument. The tags quant, range and unit are for states and
// lists only, and are refused in arguments. A struct that a state and a call share cannot
// have them: declare it once with the tags and once without, and convert one to the other.
//
// A type that has AppendBinary without MarshalBinary is refused inside other values.
// MarshalJSON is never called. What such a type encodes is its own affair. A [time.Time] inside
// other values is an instant, and is received in the receiver's zone; as the argument itself it
// keeps the offset of its zone. The zone's name and the monotonic clock are lost in both cases.
//
// A quiver tag bounds a string or []byte in bytes, and a slice or map in elements:
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//	Team  [3]string           `quiver:"max=20"`                // bytes of each: an array has its length already
//	Lines [3][]string         `quiver:"max=9,each=80"`         // elements of each of the three, then bytes of each of those
//
// "max" bounds the field, "each" the values inside it, level by level, and "key" the
// keys of the map whose bound precedes it. Arrays and pointers are skipped, so "max"
// belongs to the first level that needs a bound, and "each" is never used without it.
// A type with a method MaxEncodedSize() int bounds its values as a whole. Call refuses
// what the other end would refuse: values that exceed a bound, with [ErrTooLong],
// strings that are not valid UTF-8, and values that need much more memory than bytes.
//
// Everything that arrives is checked before it is decoded: every length against the bytes
// that are present and against its bound, every number against its type, every string for
// valid UTF-8, and the keys of a map for duplicates and NaN. Values nest at most 64
// levels deep, and take at most 64 KiB plus 64 bytes of memory for each byte on the wire.
// A message that breaks one of these rules closes the connection with [PayloadFail].
//
// Some things are not checked, and are for Validate to refuse. Floats other than
// map keys may be NaN or infinite; a comparison with NaN is false, so write what
// is allowed, as in !(x >= 0 && x <= 1). Strings may contain control characters.
// [Raw], []byte and types that encode themselves may contain any bytes.
//
// When they connect, both ends compare the shape of their classes: names, directions,
// deliveries, and the fields of every argument with their bounds. Ends that differ do
// not connect. They report where they differ if the server has Config.ExplainMismatch.
//
// # Lossy and long paths
//
// With Config.Sealed on both ends, everything that a connection sends is sent in sealed
// packets, on the same socket as QUIC's. Their keys come from the same TLS connection,
// and they are sent to no other address. Their congestion control does not slow down
// for random loss. While they do not get through, QUIC carries everything, as it does
// without the option. [Conn.Sealed] and [Stats] report which one carries, and why.
//
// # Trust
//
// A server proves its identity by its certificate: see cert.Pinned for one without an authority.
// A client proves its identity by the token that Config.Authenticate turns into an identity.
//
// WIRE.md specifies the bytes of all messages, and what a peer must not send.
package rpc
