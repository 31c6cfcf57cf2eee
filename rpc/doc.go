// Package rpc lets games call each other's actors over QUIC, as Unreal Engine does: classes of actors, and calls to
// the server, to the owning client, or to everybody.
//
// A [Class] and its calls are declared once, in a package that client and server share. Each side binds behaviour to
// it with [Bind] and [On], in a [World] of its own: all that concerns actors happens on the goroutine that drives the
// world. [Listen] and [Dial] connect worlds.
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
// [SkipOwner] on the declaration of a Multicast leaves out the owner's client, and [AnyCaller] on that of a Server RPC lets every client
// call it. A call from a client that may not make it is dropped and counted. A call that runs in the world where it was made waits for the
// next Dispatch, like calls that arrive. Calls have no result.
//
// Reliable calls of one actor run in the order in which they were made; nothing is ordered between actors. The first call to
// a client that does not have the actor opens it there first.
//
// # Questions that have an answer
//
// A [Request] is two reliable calls on the actor's channel, a question and its answer. [ServerRequest] declares a question that the
// owner asks and the server answers; [ClientRequest] is the other way round. [OnRequest] binds the function that answers. [Request.Ask]
// waits for the answer, on any goroutine but the world's; there use [Request.Then], or [Request.ThenWithin] with a limit of its own. A handler
// that has to wait moves to a goroutine of its own by [Request.Go]; one whose answer comes in another way gives it by [Request.Later]. Each
// request ends once, at the latest when its time is over, its actor's channel closes or its connection ends; an error is a [*RequestError],
// and what [Class.Errors] declares is at the asker what it was at the handler.
//
// Before any actor exists a framework can send messages: [Conn.SendMessage] and Config.OnMessage.
//
// # State
//
// A [State] is a plain struct of the game's own that the server replicates, and a [List] is a keyed list: a client has the newest
// values of both that reached it. A [Ref] names an actor on all sides, in arguments, states and lists.
//
// # Who has which actor
//
// An actor is open for its owner; with [AlwaysRelevant] for everybody; if its class has [At] or [Relevant], also for connections that
// see it, and for 5 s more; otherwise for those that [Actor.OpenTo] names. [Conn.SetView] says from where a connection sees.
//
// # The life of an actor
//
// The server spawns an actor, or places one that has a name in a level ([Place]), for a connection, for another actor, or for
// nobody: the chain of owners decides whose it is. Each client for which it is open has a copy, and [OnOpenAcked] runs at the server
// when the client has acknowledged that. A copy ends, and [OnClose] runs, when the actor is destroyed, when it closes for that
// client, or when the connection ends. A copy lives on without a channel while the actor is dormant ([Actor.SetDormant]), and as the
// client's own when the actor is torn off ([Actor.TearOff]). [CloseReason] has Unreal's five reasons, and what a client does for
// each. [NewComponent] gives an actor more objects, which share its channel.
//
// A client is let in by Config.Authenticate, which knows its token, and Config.Login, which knows the world (UE: PreLogin, Login);
// OnConnect is the first place where calls reach it (UE: PostLogin).
//
// # Two kinds of validation
//
// A method Validate() error of an argument says whether it is well formed, whoever sent it. Call calls it before it sends, and
// each side before any handler. [Check] says on the server whether the caller may do this now. On the server an error from
// either closes the caller's connection with [ValidationFailed], because the client cheats. What an honest client may ask too
// late, refuse inside the handler. About calls that a world makes to itself, as those of a listen server's host, only Validate is
// asked, by Call, which returns its error.
//
// An argument that Validate refuses never leaves an honest client, for Call returns the error. A test that wants to see
// [ValidationFailed] keeps the bound in a variable and lowers it while the call is on its way, or refuses in Check, which only the server
// calls.
//
// # Floods
//
// [RateLimit] bounds one method of one connection, Config.DispatchTime what the handlers of one may take of a Dispatch. Config.DoS watches
// what a client, by its identity, calls in all: see package dos.
//
// # Seeing it
//
// [Stats] of a connection prints itself as a table, and [World.StatNet] returns that of a world: UE's stat net. [Channel.Gate] says why
// calls wait: for the reliable buffer, the end of an earlier copy, the peer, the rate or the path. [Config].Trace writes a file for
// ui.perfetto.dev, as -NetTrace does for Networking Insights: calls and the packets that they leave in, acks, losses and resends, handlers,
// queues and round trip times. [World.SetLogLevel] switches records of one category on, as UE's LogNet, LogNetTraffic or LogRep.
//
// # Arguments
//
// Arguments are values of bools, numbers, strings, times, arrays, slices, maps, structs and pointers to them. They travel
// as msgpack, structs as arrays of their exported fields. [Raw] travels as it is, [None] takes no bytes. The tag
// `msgpack:"-"` keeps a field at home. A pointer may be a field, an element or a map's value, and nil there; the argument itself is
// a value: Server[*int] and Server[*big.Int] are refused, Server[big.Int] is not. Interfaces, channels and
// functions are refused at the declaration, and so are types that read msgpack themselves, structs of which no field
// travels, such as an [Actor], which would arrive empty, and in maps what writes itself with a pointer receiver: keys and
// values of a map have no address, so use pointers, as in map[string]*big.Int. Refused are as well pointers to pointers, structs
// that embed a pointer, and those of which two fields have one name, also where embedding promotes one of them.
//
// Some types write themselves, by the methods of package encoding:
//
//	the argument itself, an array's element   AppendBinary and UnmarshalBinary, if it has both
//	otherwise, and inside of other values     MarshalBinary and UnmarshalBinary, else MarshalText and UnmarshalText
//
// That is how to quantise an argument: the tags quant, range and unit are for states and lists, and refused in arguments. A struct that
// a state and a call share cannot carry them: declare it once with the tags and once without, and convert one to the other.
//
// A type that has AppendBinary without MarshalBinary is refused inside of others. MarshalJSON is never asked. What a type writes is its matter:
// a [time.Time] inside of others is an instant, and arrives in the receiver's zone; as the argument itself it keeps the offset of
// its zone; the zone's name and the monotonic clock are lost in both.
//
// A quiver tag bounds a string or []byte in bytes, and a slice or map in elements:
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//	Team  [3]string           `quiver:"max=20"`                // bytes of each: an array has its length already
//	Lines [3][]string         `quiver:"max=9,each=80"`         // elements of each of the three, then bytes of each of those
//
// "max" bounds the field, "each" what is inside of it, level by level, and "key" the keys of the map whose bound stands
// before it. Arrays and pointers are passed over, so that "max" stands for the first level that needs a bound, and "each" never
// stands alone. A type with a method MaxEncodedSize() int bounds its values as a whole.
// Call refuses what the other end would refuse: what is beyond a bound, with [ErrTooLong], a string that is not valid UTF-8,
// and what takes much more memory than bytes.
//
// What arrives is checked before it is decoded: every length against the bytes that are there and against its bound,
// every number against its type, every string for valid UTF-8, the keys of a map for twins and NaN, at most 64 levels of
// nesting, and at most 64 KiB plus 64 bytes of memory for each byte on the wire. What breaks a rule closes the connection
// with [PayloadFail]. Not checked, and for Validate to refuse: floats outside of map keys may be NaN or infinite, and a
// comparison with NaN is false, so write what is allowed, as in !(x >= 0 && x <= 1); strings may hold control characters;
// [Raw], []byte and types that write themselves may hold any bytes.
//
// Both ends compare the shape of their classes when they connect: names, directions, deliveries, and the fields of every
// argument with their bounds. Ends that differ do not connect, and say where they differ when the server has
// Config.ExplainMismatch.
//
// # Lossy and long paths
//
// With Config.Sealed on both ends all that a connection sends travels in sealed packets beside QUIC's on the same socket, with
// keys of the same TLS connection and to no other address, under a congestion control that random loss does not slow down.
// While they do not get through, QUIC carries, as it does without the option: [Conn.Sealed] and [Stats] say which, and why.
//
// # Trust
//
// A server proves itself by its certificate: see cert.Pinned for one without an authority. A client proves itself by
// the token that Config.Authenticate turns into an identity.
//
// WIRE.md has the bytes of all of it, and what a peer may not send.
package rpc
