package rpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quivernet/quiver/internal/badnet"
	"github.com/quivernet/quiver/internal/budget"
	"github.com/quivernet/quiver/internal/driver"
	"github.com/quivernet/quiver/internal/extend"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/sealed"
	"github.com/quivernet/quiver/internal/tasks"
	"github.com/quivernet/quiver/internal/trace"
	"github.com/quivernet/quiver/internal/words"
	"github.com/quivernet/quiver/rpc/dos"
	"github.com/quivernet/quiver/rpc/emulation"
)

// A World is one game's end of all its connections. It plays the part of Unreal's game thread:
// handlers, checks, hooks and constructors run one at a time, on the goroutine that drives the
// world by calling [World.Run], or [World.Tick], or Dispatch and Flush.
//
// Post, Do, Guard, Close, Conns, IsServer, Inside, Dropped, Attach, Connect, SetLogLevel,
// SetEmulation, HandshakeStats and MethodStats are safe for concurrent use. All other methods
// must be called on the world's goroutine. A world is a server until it connects to one.
type World struct {
	config   Config
	log      *slog.Logger  // logs.All, for records without a category
	logs     *logs.Set     // by category
	trace    *trace.Writer // nil if there is none
	extended extend.World  // additions of package stream

	// Classes and actors. Used only by the world's goroutine, except for table and actors.alive.
	table      classTable // has its own lock
	bindings   map[*Class]*binding
	actors     actorTable // actors that are alive
	replicator replicator // server: which states to compare and send
	relevance  relevance  // server: which connections an actor is open for

	// Server: actors whose channels the next Flush may close, either because they are dormant or
	// because they have passed to another owner.
	toClose []*Actor

	// Connections that have joined. Used only by the world's goroutine, except for parts of dos.
	announced  []*Conn   // admitted, and not expelled yet
	admission  admission // admits connections that have joined, and expels those that have ended
	dos        dosWatch  // has its own lock for the fields that Stats reads
	overflows  int       // connections closed because a reliable buffer was full
	lastSample time.Time // when sampleRates last ran

	// Parts of a step. Used only by the world's goroutine.
	frame      frame               // the current step
	game       tasks.Runner[*Conn] // runs functions of the game one at a time, and catches panics
	local      localCalls          // calls that run in this world
	turns      turns               // decides whose messages run now, and for how long
	requests   requests            // requests that this world makes to itself
	background background          // handlers of Request.Go
	handling   handling            // the call that is being handled
	crowd      stateCrowd          // how fast all connections send states
	failWarn   logs.Gates[*method] // limits warnings about answers that could not be sent

	// Safe for concurrent use.
	drive    *driver.Driver       // knows which goroutine drives the world, and wakes it
	callers  driver.Callers[Conn] // connections with work for the next Dispatch
	lobby    lobby                // posts, and all connections from first packet to end
	dropped  atomic.Uint64        // result of Dropped
	rate     *budget.Meter        // Config.WorldRate; nil if there is no limit
	siblings sealed.Siblings      // state shared by the sealed carriers of this world
	sockets  *badnet.Sockets      // for Config.Emulation; nil if there is none
}

func init() {
	extend.WorldOf = func(world any) *extend.World { return &world.(*World).extended }
	extend.ConnOf = func(conn any) *extend.Conn { return &conn.(*Conn).extended }
	extend.ClassOf = func(class any) *extend.Class { return &class.(*Class).extended }
	extend.PartyOf = func(conn any) budget.Party { return conn.(*Conn).party() }
	extend.MaxBunchOf = func(conn any) int { return conn.(*Conn).terms.maxBunch }
	extend.NameOf = func(conn any) string { return conn.(*Conn).name() }
}

// NewWorld returns a world without connections. It returns an error if config is not valid, which
// names the field, its value and the limit.
//
// The world copies config, but not what it refers to, such as Token and DoS, which must not change
// any more. LogLevel may change. A world has no goroutine of its own until it has a connection or a
// listener. Nothing must be freed if it never has one.
func NewWorld(config Config) (*World, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	w := &World{
		config:   config,
		bindings: make(map[*Class]*binding),
		actors: actorTable{
			placed:    make(map[string]*Actor),
			namesakes: make(map[string][]*Actor),
			byRef:     make(map[Ref]*Actor),
		},
		drive:    driver.New(),
		requests: newRequests(config.MaxRequests),
		failWarn: make(logs.Gates[*method]),
		rate:     budget.NewMeter(config.WorldRate),
	}
	w.table.maxBunch = config.Bunch.MaxBunch
	w.admission.world = w
	w.lobby.open(config)
	w.extended.Wake = w.drive.Signal
	w.extended.Driven = w.drive.DrivenBy
	w.extended.Closed = w.lobby.shut
	w.extended.MaxBunch = config.Bunch.MaxBunch
	w.extended.Channels = config.Bunch.MaxChannels
	if config.Emulation != nil {
		out, in, err := badnet.Links(*config.Emulation)
		if err != nil {
			return nil, err
		}
		w.sockets = badnet.NewSockets(out, in)
	}
	w.openLogs()
	for _, doubt := range config.doubts() {
		w.log.Warn("setting is probably a mistake", "doubt", doubt)
	}
	if config.OnPanic != nil {
		w.game.Panicked = w.panicked // without OnPanic, panics aren't recovered at all
	}
	if config.DoS != nil {
		var err error
		if w.dos.detector, err = dos.New(config.DoS); err != nil {
			return nil, errorf("rpc: Config.DoS: %w", err)
		}
		w.dos.counts = make(map[string]*dos.Count)
	}
	for _, class := range config.Classes {
		if err := w.table.add(class); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// openLogs sets up the logs and the trace.
func (w *World) openLogs() {
	level := w.config.LogLevel
	if level == nil {
		level = new(slog.LevelVar)
	}
	w.logs = logs.New(w.config.Logger, level)
	w.log = w.logs.All
	w.trace = trace.NewWriter(
		w.config.Trace,
		func() string { return "quiver " + w.role() },
		func(err error) { w.log.Error("trace ended", "error", err) },
	)
}

// bind adds a binding. It panics if the class is already bound, or if another class has the same
// name, because both are mistakes in the program.
func (w *World) bind(b *binding) {
	if err := w.table.add(b.class.root()); err != nil {
		panic(err.Error())
	}
	if w.bindings[b.class] != nil {
		panic(fmt.Sprintf("rpc: Bind: class %q is already bound in this world: "+
			"call Bind once and keep the Binding that it returns", b.class.name))
	}
	for a := range w.actors.all.all {
		if a.class == b.class.root() {
			panic(fmt.Sprintf("rpc: Bind: %v exists already and would have no object: call Bind before Spawn", a))
		}
	}
	w.bindings[b.class] = b
}

// freeze is called before the first connection or listener is made. No class and no extension can
// be added after that, because both ends compare them in the handshake.
func (w *World) freeze() {
	w.extended.Close()
	w.table.freeze()
}

// IsServer reports whether this world has authority. A world has authority unless it has connected
// to a server.
func (w *World) IsServer() bool { return !w.lobby.client.Load() }

// role returns "server" or "client", for tables and traces.
func (w *World) role() string {
	if w.IsServer() {
		return "server"
	}
	return "client"
}

// SetLogLevel changes the log level. If categories are given, it sets only the level of these
// categories. Otherwise it sets the level of all records that have no category, or whose category
// has no level of its own. It returns an error if a category doesn't exist. UE (Unreal Engine's
// counterpart): Log LogRep Verbose.
//
// Each record at Debug has one of the following categories, which a slog.Handler receives in
// WithAttrs as the attribute "category":
//
//   - handshake
//   - channel: actors open and close
//   - partial: messages that need more than one bunch
//   - reliable: calls, and entries in flight
//   - rep: updates of states
//   - relevancy
//   - dormancy
//
// Records below the level are not formatted.
func (w *World) SetLogLevel(level slog.Level, categories ...string) error {
	return w.logs.SetLevel(level, categories...)
}

// SetEmulation changes [Config].Emulation for all packets from now on. It is safe for
// concurrent use. If the world was made without Config.Emulation, its sockets can't emulate a
// network, so SetEmulation returns an error.
func (w *World) SetEmulation(e emulation.Settings) error {
	out, in, err := badnet.Links(e)
	if err != nil {
		return err
	}
	if w.sockets == nil {
		return errors.New("rpc: SetEmulation on a world without Config.Emulation: to start without emulation, set it to &emulation.Settings{}")
	}
	w.sockets.Set(out, in)
	return nil
}

// Now returns the time that was passed to the latest Dispatch, Flush or Tick, or the zero time
// before the first of these calls. In [World.Run], it is the system's time.
// UE: UWorld::GetTimeSeconds.
//
// Now is the game's clock for OnConnect, OnDisconnect, Login, posts and constructors. Handlers
// have [Call].Now.
func (w *World) Now() time.Time { return w.frame.now }

// OnTick adds a hook that runs in every Flush, before states are compared and packets are sent.
func (w *World) OnTick(fn func(now time.Time)) {
	mustRun("OnTick", fn == nil)
	w.frame.onTick = append(w.frame.onTick, fn)
}

// OnConnect adds a hook that runs when a connection joins, before Config.OnConnect.
func (w *World) OnConnect(fn func(*Conn)) {
	mustRun("OnConnect", fn == nil)
	w.admission.onConnect = append(w.admission.onConnect, fn)
}

// OnDisconnect adds a hook that runs when a connection that had joined has ended, before
// Config.OnDisconnect.
func (w *World) OnDisconnect(fn func(*Conn, error)) {
	mustRun("OnDisconnect", fn == nil)
	w.admission.onDisconnect = append(w.admission.onDisconnect, fn)
}

// mustRun panics if the World method named by was passed no function. Without it, the panic would
// come in a later tick, which can't tell who passed the function.
func mustRun(by string, isNil bool) {
	if isNil {
		panic(fmt.Sprintf("rpc: World.%s: no function", by))
	}
}

// Conns returns the connections that have joined and aren't closed, oldest first. For some of them,
// OnConnect may not have run yet.
func (w *World) Conns() []*Conn {
	conns := slices.DeleteFunc(w.lobby.all(), func(c *Conn) bool {
		return !c.life.joined.Load() || c.life.closing.Load()
	})
	slices.SortFunc(conns, func(a, b *Conn) int { return cmp.Compare(a.id, b.id) })
	return conns
}

// Close closes all connections with code and reason, and returns when their carriers have ended.
// Like [Conn.Close], it still delivers everything that was sent reliably. Use HostClosedConnection
// for an orderly shutdown.
//
// As soon as Close is called, the world accepts no more connections, posts or actors, and Run
// returns ErrClosed. OnDisconnect runs in the next Dispatch. Calls that run in this world are still
// accepted, because OnDisconnect may make some, and run for as long as something drives the world.
// Calls to clients are counted in Drops.Gone.
//
// If ctx ends before the carriers do, Close returns an error, and the connections continue to close
// in the background. To wait for them, call Close again or use [Conn.Wait].
//
// Close doesn't close listeners. Call [Listener.Close] afterwards, which waits for clients to which
// the close has to be sent again.
//
// Close also ends the trace of [Config].Trace, and returns any error from writing it.
func (w *World) Close(ctx context.Context, code Code, reason string) error {
	defer w.drive.Signal()
	w.warnOfCode(code, reason)
	w.lobby.close(&CloseError{Code: code, Reason: reason})
	// Close the connections even if ctx has already ended. A connection that is still being
	// attached isn't in the list, but it will find the lobby closed and close itself.
	for _, c := range w.lobby.all() {
		c.close(code, reason)
	}
	err := w.waitClosed(ctx)
	if traceErr := w.trace.Close(ctx); traceErr != nil {
		err = errors.Join(err, errorf("rpc: closing the world: Config.Trace: %w", traceErr))
	}
	return err
}

// warnOfCode logs a warning if a game closes connections with a code that its peers would take for
// one of bunch or of QUIC, such as 5, when its own codes begin at 0 or 1.
func (w *World) warnOfCode(code Code, reason string) {
	_, named := codeNames[code]
	if code != 0 && (code < HostClosedConnection || code == ConnectionLost || code < firstGameCode && !named) {
		w.log.Warn("closing with a code that belongs to package rpc or bunch: a game's own codes begin at 1024",
			"code", code.String(), "number", int(code), "reason", reason)
	}
}

// WaitHandlers waits until no function of [Request.Go] is running and all their answers have
// been sent. If ctx ends first, it returns the cause of ctx. The world must be driven while
// WaitHandlers waits.
//
// To shut down, a server makes its handlers refuse new requests, calls WaitHandlers to wait for the
// running ones, and closes the world. Closing the world ends the contexts of functions whose
// callers are gone, so the server may then call WaitHandlers again to wait for those as well.
func (w *World) WaitHandlers(ctx context.Context) error { return w.background.wait(ctx) }

// Post runs fn on the world's goroutine in the next Dispatch. If the world is closed, or if
// Config.MaxPosts functions are already waiting, Post drops fn, logs this, and counts it in
// [World.Dropped].
func (w *World) Post(fn func()) {
	mustRun("Post", fn == nil)
	if err := w.post(fn); err != nil {
		w.dropped.Add(1)
		w.log.Warn("post dropped", "function", nameOf(fn), "error", err)
	}
}

// nameOf returns the name of a function as the compiler gives it, for logs.
func nameOf(fn func()) string { return runtime.FuncForPC(reflect.ValueOf(fn).Pointer()).Name() }

// Do runs fn on the world's goroutine in the next Dispatch, and waits until fn has run.
//
// If ctx ends before fn begins, fn doesn't run, and Do returns the cause of ctx. If Config.MaxPosts
// functions are already waiting, Do returns ErrBacklogFull. On the world's goroutine it returns
// ErrOnWorld. If fn panics, Do returns an error.
//
// In a closed world, fn doesn't run and Do returns ErrClosed immediately. If the world is closed
// while fn is waiting, Do returns ErrClosed unless a Dispatch runs fn within a second.
func (w *World) Do(ctx context.Context, fn func()) error {
	mustRun("Do", fn == nil)
	if w.Inside() {
		return fmt.Errorf("%w: Do would wait for itself: call the function directly", ErrOnWorld)
	}
	returned := false
	run := func() {
		fn()
		returned = true
	}
	wait := func(done <-chan struct{}) error { return w.lobby.awaitDispatch(ctx, done) }
	if err := w.runInDispatch(run, wait); err != nil {
		return err
	}
	if !returned {
		return errors.New("rpc: function passed to Do panicked or called runtime.Goexit")
	}
	return nil
}

// runInDispatch posts fn and blocks in wait until fn has returned or panicked. If wait returns an
// error before fn has begun, fn never runs, and runInDispatch returns that error.
func (w *World) runInDispatch(fn func(), wait func(done <-chan struct{}) error) error {
	var claimed atomic.Bool // by the Dispatch that runs fn, or by this function if wait gives up
	done := make(chan struct{})
	err := w.post(func() {
		if claimed.CompareAndSwap(false, true) {
			defer close(done)
			fn()
		}
	})
	if err != nil {
		return err
	}
	if err := wait(done); err != nil && claimed.CompareAndSwap(false, true) {
		return err
	}
	<-done // fn is already running, so wait for it
	return nil
}

// Inside reports whether the caller is on the goroutine that last drove the world. On that
// goroutine, a call that waits for the world would wait forever.
func (w *World) Inside() bool { return w.drive.Inside() }

// Dropped returns the number of functions and calls that the world has dropped: posts that it
// refused, local calls whose actor was destroyed or had no object, and functions of a closed world
// that kept making calls and requests.
func (w *World) Dropped() uint64 { return w.dropped.Load() }

// post queues fn for the next Dispatch. It fails if the world is closed or the queue is full.
func (w *World) post(fn func()) error {
	err := w.lobby.post(fn)
	if err == nil {
		w.drive.Signal()
	}
	return err
}

// postUnlimited queues a function that must not be lost. Since it never fails, the caller has to
// limit the number of such functions.
func (w *World) postUnlimited(fn func()) {
	w.lobby.postUnlimited(fn)
	w.drive.Signal()
}

// Guard runs fn, a function of the game, and reports whether it returned. It is for packages
// that call functions of the game from their own hooks.
//
// If fn panics, Guard passes the panic to Config.OnPanic with conn, which may be nil. It calls
// function to get the name of what panicked, for OnPanic and the log. Guard doesn't close conn,
// because only the package knows what must end. Without Config.OnPanic, the panic continues.
//
// The world guards the handlers and hooks that it calls itself. If one panics, it closes the
// connection with HandlerPanic.
func (w *World) Guard(conn *Conn, function func() string, fn func()) (returned bool) {
	if w.config.OnPanic == nil {
		fn()
		return true
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			w.tellPanic(conn, function(), recovered)
		}
	}()
	fn()
	return true
}

// catch must be deferred around functions of the game that run on other goroutines. It recovers
// from a panic and passes it to Config.OnPanic, or lets it continue if there is no OnPanic. On
// the world's goroutine, [tasks.Runner.Catch] does the same job.
func (w *World) catch(conn *Conn, doing tasks.Doing) {
	if w.config.OnPanic == nil {
		return
	}
	if recovered := recover(); recovered != nil {
		w.panicked(conn, doing, recovered)
	}
}

// panicked closes the connection for which a function of the game has panicked.
//
// It's safe to tell the peer the function's name in the close reason, because a peer that has
// joined has declared the same classes, and before that only Config.Authenticate and Login run.
func (w *World) panicked(conn *Conn, doing tasks.Doing, recovered any) {
	if conn != nil {
		conn.abort(&CloseError{
			Code:   HandlerPanic,
			Reason: fmt.Sprintf("%v panicked", doing),
			cause:  tasks.Panic{Recovered: recovered},
		})
	}
	w.tellPanic(conn, doing.String(), recovered)
}

// tellPanic logs a panic and passes it to OnPanic. It must be called by the deferred function
// that recovers, because the panic's stack is gone after that.
func (w *World) tellPanic(conn *Conn, function string, recovered any) {
	log := w.log
	if conn != nil {
		log = log.With("conn", conn)
	}
	log.Error("game function panicked", "function", function, "panic", fmt.Sprint(recovered))
	w.config.OnPanic(conn, function, recovered, debug.Stack())
}

// waitClosed waits until the carriers of all connections have ended. It returns an error if ctx
// ends first.
func (w *World) waitClosed(ctx context.Context) error {
	attached := make(chan struct{})
	go func() {
		w.lobby.attaching.Wait()
		close(attached)
	}()
	if err := waitFor(ctx, attached); err != nil {
		return errorf("rpc: closing the world: connections are still being attached or closed: %w", err)
	}
	conns := w.lobby.all()
	for i, c := range conns {
		if err := waitFor(ctx, c.Done()); err != nil {
			return errorf("rpc: closing the world: %d of %s still closing: %w",
				len(conns)-i, words.Plural(len(conns), "connection", "connections"), err)
		}
	}
	return nil
}

// waitFor waits until done is closed. If ctx ends first, it returns the cause of ctx.
func waitFor(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mustBeInside panics if Config.CheckGoroutine is set and the caller isn't on the world's
// goroutine. For the message, what is the name of the method, and of is the object that it was
// called on, or nil.
func (w *World) mustBeInside(what string, of fmt.Stringer) {
	if w.config.CheckGoroutine {
		w.checkGoroutine(tasks.Doing{What: what, Of: of})
	}
}

// checkGoroutine is the slow part of mustBeInside. It is a separate function so that mustBeInside
// can be inlined.
func (w *World) checkGoroutine(doing tasks.Doing) {
	if w.drive.Outside() {
		panic(fmt.Sprintf("rpc: %v called on a goroutine that does not drive the world: use World.Post or World.Do", doing))
	}
}

// Destroy ends an actor and its copies on all clients. Earlier calls on the actor are still
// delivered, but later ones return ErrClosed. A client can destroy only copies that are torn off,
// and placed actors without a channel. If the actor has already ended, Destroy does nothing and
// returns nil.
func (w *World) Destroy(a *Actor) error {
	switch {
	case !a.valid():
		return fmt.Errorf("rpc: Destroy of %s", noActor)
	case a.world != w:
		return errOtherWorld(fmt.Sprintf("Destroy of %v", a))
	}
	w.mustBeInside("Destroy", nil)
	switch {
	case !w.IsServer() && !a.tornOff && (a.name == "" || len(a.openings) > 0):
		return errOnClient(fmt.Sprintf("Destroy of %v, which is not torn off, nor placed without a channel,", a))
	case a.dead:
		return nil
	case !w.IsServer():
		w.endCopy(a.conn, a, Destroyed)
		return nil
	}

	// End the actor on the clients that have it. Clients may place a placed actor before the server
	// opens it, so tell all of them, including those that join later.
	if !a.tornOff {
		a.endPlacedCopies()
	}
	a.closeAll(Destroyed)
	for len(a.dormancy.detachedAt) > 0 {
		a.dismiss(a.dormancy.detachedAt[0], Destroyed)
	}

	// End the actor here, and give the actors that it owned to the server.
	w.relevance.remove(a)
	orphans := a.orphanChildren()
	a.leaveOwner()
	a.conn = nil
	a.end(Destroyed)
	for _, orphan := range orphans {
		orphan.ownerChanged()
	}
	return nil
}

// Actors yields the game's actors that are alive here, in the order of their [Ref]. On a server,
// these are the actors that it has spawned, and on a client, they are its copies. The actors of
// package stream are left out. Actors must be called on the world's goroutine. UE: TActorIterator.
//
// Actors may be added and may end during the iteration. The iteration yields neither actors that
// were added after it began, nor actors that have ended.
func (w *World) Actors() iter.Seq[*Actor] {
	inOrder := w.actors.all.all // a server numbers its actors in the order of Spawn
	if !w.IsServer() {
		inOrder = func(yield func(*Actor) bool) {
			slices.Values(slices.SortedStableFunc(w.actors.all.all, byRef))(yield)
		}
	}
	return func(yield func(*Actor) bool) {
		for a := range inOrder {
			if !a.dead && !a.class.ofExtension() && !yield(a) {
				return
			}
		}
	}
}

// runOpenAcked calls OnOpenAcked for the actors whose opens clients have acknowledged.
func (w *World) runOpenAcked() {
	for _, c := range w.frame.attended(w.announced) {
		if len(c.shown.unacked) == 0 {
			continue
		}
		c.link.Lock()
		acked := c.shown.takeAcked(c.machine)
		c.link.Unlock()
		for _, o := range acked {
			o.queueOpenAcked()
		}
	}
	w.game.RunTasks()
}

// keepSendBudget closes the connections with the heaviest backlogs until the others hold no more
// than Config.SendBudget. unacked is the sum of all backlogs in bytes.
func (w *World) keepSendBudget(unacked int, now time.Time) {
	limit := w.config.SendBudget
	for unacked > limit {
		c := slices.MaxFunc(w.announced, func(a, b *Conn) int {
			return cmp.Compare(a.backlog.weight(now), b.backlog.weight(now))
		})
		if c.backlog.bytes == 0 {
			return // all have been closed
		}
		c.link.Lock()
		reason := fmt.Sprintf("reliable messages of all connections hold %d bytes; the limit is %d (Config.SendBudget): %s",
			unacked, limit, c.describeUnacked())
		c.link.Unlock()
		if c.usable() {
			w.log.Error("connection closed for its backlog", "conn", c, "reason", reason)
			c.abort(&CloseError{Code: ReliableBufferOverflow, Reason: reason})
		}
		unacked -= c.backlog.bytes
		c.backlog.bytes = 0
	}
}
