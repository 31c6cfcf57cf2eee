// Package rpc lets the two ends of a game call methods of each other's actors over QUIC, in the
// manner of Unreal Engine: calls to the server, to the client that owns the actor, or to all
// clients. A remark that begins with "UE:" names Unreal Engine's counterpart, for readers who know
// it or are porting a game from it.
//
// A [Class] and its calls are declared once, in a package that client and server share. Each side
// makes a [World] and binds behavior to the class there, with [Bind] and [On]. Two worlds connect
// when one calls [Listen] and the other calls [Dial].
//
// A world has to be driven, either by [World.Run] or by calling [World.Tick] in the game's own
// loop. Each tick consists of a [World.Dispatch], which handles what has arrived, and a
// [World.Flush], which sends. Everything to do with actors happens on the goroutine that drives
// the world.
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
// With the option [SkipOwner], a Multicast leaves out the owner's client. With [AnyCaller], every
// client may call a Server RPC. The server drops and counts calls that a client isn't allowed to
// make.
//
// A call that runs in the world that made it waits for the next Dispatch, like a call from the
// peer. Calls have no result.
//
// Reliable calls of one actor run in the order in which they were made, unless their method waits
// for the actors in its argument ([WaitForActors]). There is no order between actors. If a client
// doesn't have the actor yet, the first call to that client also opens the actor there, before
// the call runs.
//
// # Requests
//
// A [Request] is a call with an answer. Under the hood it is two reliable calls on the actor's
// channel, a question and its answer. [ServerRequest] declares a request that the owner makes
// and the server answers, [ClientRequest] declares the reverse, and [OnRequest] binds the
// function that answers.
//
// [Request.Ask] waits for the answer, on any goroutine except the world's. On the world's
// goroutine use [Request.Then] instead, or [Request.ThenWithin] with a time limit.
//
// If a handler has to wait for something, [Request.Go] lets it do so on a goroutine of its own. A
// handler that obtains its answer some other way can deliver it with [Request.Later].
//
// Each request ends exactly once: with its answer, at its time limit, or when its actor's channel
// closes or its connection ends. An error is a [*RequestError]. If the class declares an error
// with [Class.Errors], errors.Is recognizes it on the asker's side as well.
//
// To send messages before any actor exists, as a framework may have to, use [Conn.SendMessage]. The
// peer's Config.OnMessage receives them.
//
// # State
//
// The server can also replicate data: a [State] is a plain struct that the game defines, and a
// [List] is a list with keys. A client sees the newest values that have arrived. In arguments,
// states and lists, a [Ref] identifies the same actor at both ends.
//
// # Which client has which actor
//
// A client has an actor if the actor is open for it. An actor is open for its owner, and
// with [AlwaysRelevant] for every client. If its class has [At] or [Relevant], it is also open
// for the clients that see it, and for 5 s after they last saw it. Otherwise the game opens it
// with [Actor.OpenTo]. [Conn.SetView] sets the point from which a client sees.
//
// # The life of an actor
//
// The server creates an actor with [Spawn]. If the actor is part of a level and has a name
// there, it uses [Place] instead. Its owner is a connection, another actor, or the server
// itself. Following the chain of owners leads to the client that owns the actor, if any. Each
// client for which the actor is open has a copy of it. Once a client has acknowledged the
// open, [OnOpenAcked] runs on the server.
//
// A copy ends, and [OnClose] runs, when the actor is destroyed, when it closes for that client,
// or when the connection ends. If the actor goes dormant instead ([Actor.SetDormant]), the copy
// stays, but without a channel. If the actor is torn off ([Actor.TearOff]), the copy stays and
// belongs to the client.
//
// [CloseReason] lists Unreal's five reasons for closing a channel and documents what a client
// does for each. [NewComponent] gives an actor more objects, which share its channel.
//
// When a client connects, Config.Authenticate first admits or refuses it by its token alone.
// Config.Login then decides with knowledge of the world (UE: PreLogin, Login). OnConnect is the
// first place from which calls reach the client (UE: PostLogin).
//
// # Two kinds of validation
//
// If an argument has a method Validate() error, this method decides whether the argument is well
// formed, no matter who sent it. Call runs Validate before it sends, and each side runs it again
// before any handler.
//
// A function bound with [Check] runs on the server and decides whether the caller may make this
// call now.
//
// If either returns an error on the server, the server closes the caller's connection with
// [ValidationFailed], because only a cheat sends such a call. If the call of an honest client may
// just come too late, refuse it in the handler instead.
//
// A world may also call itself, as a listen server does for its host. For such calls, Call runs
// Validate once and returns its error, and Check isn't called.
//
// An honest client never sends an argument that Validate refuses, because Call returns the error
// instead. To provoke [ValidationFailed] in a test, keep the bound in a variable and lower it
// while the call is in flight. Alternatively, refuse the call in Check, which only the server
// calls.
//
// # Floods
//
// [RateLimit] limits how often one connection may call one method, and Config.DispatchTime limits
// how long the handlers of one connection may run in a Dispatch. Config.DoS limits everything
// that a client calls, and recognizes the client by its identity. See package dos.
//
// # Diagnostics
//
// The [Stats] of a connection print themselves as a table, and [World.StatNet] returns one for
// the whole world, like UE's stat net.
//
// [Channel.Gate] returns what calls are waiting for: the reliable buffer, the end of an earlier
// copy, the peer, the rate or the path.
//
// With [Config].Trace, a world writes a file for ui.perfetto.dev, as -NetTrace does for
// Networking Insights. The file shows calls and the packets that carry them, acks, losses,
// resends, handlers, queues and round trip times.
//
// [World.SetLogLevel] enables the log records of one category, like UE's LogNet, LogNetTraffic or
// LogRep.
//
// # Arguments
//
// Arguments are bools, numbers, strings, times, arrays, slices, maps, structs, and pointers to
// them, all encoded in msgpack. A struct becomes an array of its exported fields, except for
// fields with the tag `msgpack:"-"`. [Raw] is sent unchanged, and [None] takes no bytes.
//
// A field, an element or a map value may be a pointer, which may be nil. The argument itself must
// be a value, though: a declaration panics for Server[*int] and Server[*big.Int], but not for
// Server[big.Int]. It also panics for:
//
//   - interfaces, channels and functions
//   - types that read msgpack themselves
//   - structs that have no field to send, such as an [Actor], because they would arrive empty
//   - map keys and values of types that encode themselves with a pointer receiver, because they
//     have no address; use pointers instead, as in map[string]*big.Int
//   - pointers to pointers, and structs that embed a pointer
//   - structs with two fields of the same name, including promoted fields of embedded structs
//
// Types can encode themselves with the methods of package encoding:
//
//	the argument itself, an array's element   AppendBinary and UnmarshalBinary, if it has both
//	otherwise, and inside other values        MarshalBinary and UnmarshalBinary, else MarshalText and UnmarshalText
//
// Use such a type to quantize an argument. The tags quant, range and unit are only for states and
// lists, and a declaration panics if an argument has them. If a state and a call need the same
// struct, declare it once with the tags and once without, and convert one to the other.
//
// Inside other values, a type that has AppendBinary must also have MarshalBinary. MarshalJSON is
// never called. The bytes that these methods produce are not examined.
//
// A [time.Time] inside other values is just an instant, and arrives in the receiver's time zone.
// A time.Time that is the argument itself keeps the offset of its zone. In both cases, the zone's
// name and the monotonic clock are lost.
//
// A quiver tag bounds a string or []byte in bytes, and a slice or map in elements:
//
//	Name  string              `quiver:"max=32"`                // bytes
//	Tags  []string            `quiver:"max=100,each=20"`       // elements, then bytes of each
//	Index map[string][]string `quiver:"max=8,key=16,each=4,each=20"`
//	Team  [3]string           `quiver:"max=20"`                // bytes of each: an array's length is fixed
//	Lines [3][]string         `quiver:"max=9,each=80"`         // elements of each of the three, then bytes of each of those
//
// "max" bounds the field, "each" bounds the values inside it, level by level, and "key" bounds
// the keys of the map whose bound precedes it. Since arrays and pointers are skipped, "max"
// belongs to the first level that needs a bound, and "each" is never used without "max".
//
// A method MaxEncodedSize() int bounds the values of its type as a whole.
//
// Call returns an error for any argument that the other end would refuse. For a value that exceeds
// a bound, this is [ErrTooLong]. Strings must be valid UTF-8, and values must not need much more
// memory than their encoding.
//
// Everything that arrives is checked before it is decoded: lengths against the bytes present and
// against their bounds, numbers against their types, strings for valid UTF-8, and the keys of a
// map for duplicates and NaN. Values nest at most 64 levels deep, and take at most 64 KiB plus
// 64 bytes of memory for each byte on the wire. A message that breaks one of these rules closes
// the connection with [PayloadFail].
//
// Everything else is up to Validate. Floats other than map keys may be NaN or infinite. Since
// comparisons with NaN are false, Validate must test for allowed values, as in !(x >= 0 && x
// <= 1). Strings may contain control characters. [Raw], []byte and types that encode themselves
// may contain any bytes.
//
// When two ends connect, they compare their classes: names, directions, deliveries, and the
// fields of every argument with their bounds. If they differ, the connection is refused. If the
// server sets Config.ExplainMismatch, both ends report the first difference. Before the classes,
// they compare the versions of Quiver's protocol and of the game (Config.GameVersion).
//
// # Lossy and long paths
//
// With Config.Sealed on both ends, a connection sends everything in sealed packets, which are
// encrypted UDP datagrams on the same socket as QUIC's. The packets' keys come from the same TLS
// connection, and the packets are sent only to the peer's address in QUIC. Their congestion
// control doesn't slow down for random loss.
//
// While sealed packets don't get through, QUIC carries everything, as it does without
// Config.Sealed. [Conn.Sealed] and [Stats] report which of the two is in use, and why.
//
// # Trust
//
// A server proves its identity with its certificate. If no authority has signed the certificate,
// clients can pin it with Pinned of package cert. A client proves its identity with its token,
// which Config.Authenticate turns into an identity.
//
// WIRE.md specifies the encoding of all messages, and what a peer must not send.
package rpc
