package rpc

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/quivernet/quiver/bunch"
	"github.com/quivernet/quiver/internal/keyed"
	"github.com/quivernet/quiver/internal/logs"
	"github.com/quivernet/quiver/internal/state"
	"github.com/quivernet/quiver/internal/wire"
)

// OpenTo opens the actor for c, unless it is already open there. The client gets the actor's
// current states, and all calls from now on. Only the server may call OpenTo.
//
// If c may still have an earlier copy, because CloseTo was called within the last round trip, the
// open waits until c has acknowledged the end of that copy. The copy of a dormant actor goes
// dormant again at the next Flush. If c is closing and doesn't have the actor, OpenTo returns
// [ErrClosed], even before OnDisconnect has run.
//
// If the class has [At] or [Relevant], the actor closes once it hasn't been relevant to c for 5 s,
// and calling OpenTo again doesn't extend that time. For a spectator who must see everything, let
// Relevant return true.
//
// If the actor is [OnlyRelevantToOwner], OpenTo returns an error for all but its owner.
func (a *Actor) OpenTo(c *Conn) error {
	if err := a.checkAuthority("OpenTo"); err != nil {
		return err
	}
	switch {
	case c == nil:
		return errorf("rpc: OpenTo of %v for a nil *Conn: %w", a, ErrWrongRole)
	case c.world != a.world:
		return errorf("rpc: OpenTo of %v for %v: connection belongs to another world: %w", a, c, ErrWrongRole)
	case a.relevancy.onlyOwner && a.conn != c:
		return errorf("rpc: OpenTo of %v for %v: actor is OnlyRelevantToOwner, and its owner is %s: %w", a, c, a.ownerName(), ErrNotOwner)
	}
	if err := a.ensureOpen(c); err != nil {
		return err
	}
	a.relevancy.openedByGame = true
	if !a.relevancy.onlyOwner {
		c.shown.opened[a] = true
	}
	return nil
}

// ensureOpen opens the actor for c unless the client already has a copy, open or dormant. If that
// copy is about to be closed, ensureOpen cancels the close.
func (a *Actor) ensureOpen(c *Conn) error {
	if o := a.openingOn(c); o != nil {
		o.cancelClose()
		return nil
	}
	if c.shown.hasDormant(a) {
		return nil
	}
	return a.open(c)
}

// tryOpen is like ensureOpen, for opens that the world decides on. It does nothing for an actor
// that ended or was torn off in the meantime. It logs an error before returning it, and returns nil
// if the open failed because the client is leaving or the actor ended.
func (a *Actor) tryOpen(c *Conn) error {
	if a.dead || a.tornOff {
		return nil
	}
	err := a.ensureOpen(c)
	if err == nil || !c.usable() || a.dead {
		return nil
	}
	a.logNotOpened(c, err)
	return err
}

// open opens the actor for c, which must not have it open yet.
func (a *Actor) open(c *Conn) error {
	if !c.usable() {
		return errorf("rpc: cannot open %v for %v: %w", a, c, ErrClosed)
	}
	a.world.watch(a)
	a.compareAll()
	hadCopy := c.shown.hasDetached(a) // if so, the copy may have list items that were removed since
	lists := a.states.backlogs(a.class, hadCopy)
	channel, err := a.sendOpen(c, lists)
	if err != nil {
		a.world.replicator.noteClosed(a)
		return err
	}
	a.forgetDetached(c)
	o := newOpening(a, c, channel)
	o.lists = lists
	a.openings = append(a.openings, o)
	c.shown.add(o)
	c.channels.set(channel, a)
	c.world.logs.Opened(c, a, channel)

	// Items that didn't fit into the open message follow in updates.
	o.mark(o.backlogged())
	if a.dormancy.on {
		a.dormantAtFlush()
	}
	return nil
}

// sendOpen sends the open message to c on a new channel, and takes the items in it from lists.
func (a *Actor) sendOpen(c *Conn, lists []keyed.Backlog) (channel uint64, err error) {
	message, err := a.openMessage(c, c.terms.maxBunch, lists)
	if err != nil {
		return 0, err
	}
	c.link.Lock()
	a.world.frame.cork(c)
	channel, err = a.openOn(c, message)
	c.link.Unlock()
	if err != nil {
		c.logClosed(err)
		return 0, errorf("rpc: cannot open %v for %v: %w", a, c, err)
	}
	return channel, nil
}

// newOpening returns the opening of an actor whose open message was sent to c on channel.
func newOpening(a *Actor, c *Conn, channel uint64) *opening {
	return &opening{
		actor:      a,
		conn:       c,
		channel:    channel,
		reliable:   1,
		visible:    a.fieldsFor(c),
		since:      a.world.frame.now,
		relevantAt: a.world.relevance.elapsed,
	}
}

// openOn opens a channel and sends the open message on it. If the send fails, openOn closes the
// channel again. The caller holds the link's lock.
func (a *Actor) openOn(c *Conn, message []byte) (channel uint64, err error) {
	if channel, err = a.channelOn(c); err != nil {
		return 0, err
	}
	c.trace.About("open", a.class.name, uint64(a.ref))
	if err = c.machine.Send(channel, bunch.Reliable, message); err != nil {
		return 0, errors.Join(err, c.machine.Close(channel, nil))
	}
	return channel, nil
}

// channelOn opens a channel for the actor. If an earlier channel of the same actor was closed,
// nothing is sent on the new channel until the client has acknowledged that close.
//
// If the connection has used up all channel numbers, channelOn aborts it, because the client gets
// a new set of numbers when it reconnects. The caller holds the link's lock.
func (a *Actor) channelOn(c *Conn) (channel uint64, err error) {
	if channel, err = c.machine.Open(a.class.extended.Priority); err != nil {
		if c.machine.NumbersExhausted() {
			c.abort(&CloseError{
				Code:   ServerFull,
				Reason: "connection has used up its channel numbers: reconnect",
				cause:  err,
			})
		}
		return 0, c.openFailed(a.class, err)
	}
	if earlier, ok := c.shown.closedChannels.take(a.ref); ok {
		if err = c.machine.After(channel, earlier); err != nil {
			return 0, errors.Join(err, c.machine.Close(channel, nil))
		}
	}
	return channel, nil
}

// reopen opens the actor for all clients whose copy lost its channel for one of the reasons.
func (a *Actor) reopen(reasons ...CloseReason) {
	for _, c := range slices.Clone(a.dormancy.detachedAt) {
		if !c.usable() || !slices.Contains(reasons, c.shown.detached[a]) {
			continue
		}
		c.world.logs.Actor(logs.Dormancy, "wakes", c, a)
		if err := a.open(c); err != nil {
			a.logNotOpened(c, err)
		}
	}
}

// logNotOpened logs that an actor couldn't be opened. It logs at most once a second per connection,
// because every Flush may try again, and fails while the client has no free channel.
func (a *Actor) logNotOpened(c *Conn, err error) {
	if hidden, ok := c.shown.openWarn.Pass(time.Now()); ok {
		a.world.log.Error("actor not opened", "conn", c, "actor", a.class.name, "error", err, "more", hidden)
	}
}

// OnOpenAcked registers fn to run on the server, in Dispatch, when a client has acknowledged the
// open of an actor of the class. OnOpenAcked panics if the class already has such a function.
// UE (Unreal Engine's counterpart): OpenAcked of the actor's channel.
//
// Calls and states that are sent to the client from then on can't arrive before the actor, and
// the client makes its copy no later than in its next Dispatch. The acknowledgment doesn't mean
// that the game on the client has finished its own work for the copy, such as loading a level. If
// the server needs to know that, the game must report it with a call.
//
// fn runs once for each open, so it runs again if the actor opens again after it was closed for c
// or dormant there. fn doesn't run if the actor closes before, or together with, the acknowledgment
// of its open (see [World.SetOwner]). Nor does it run after this side has closed c.
func OnOpenAcked[T any](b *Binding[T], fn func(object T, c *Conn)) {
	mustHook("OnOpenAcked", b.untyped.class, fn == nil, b.untyped.onOpenAcked != nil)
	b.untyped.onOpenAcked = func(object any, c *Conn) { fn(object.(T), c) }
}

// Flags of an open message. An owner message also has a flags byte, in which only flagOwned may
// be set. All other bits must be zero.
const (
	flagOwned  = 1 << iota // the receiver owns the actor
	flagState              // states follow
	flagPlaced             // the actor's name follows its Ref
)

const (
	// maxOpenItems is the maximum number of bytes of an open message with items of lists. Most
	// lists fit. An open is reliable, so it is sent whatever the path has room for, and calls wait
	// behind it. Large lists are therefore better sent in updates, which the stateBudget limits.
	maxOpenItems = 16 << 10

	// maxItemsUnacked is the number of bytes of unacknowledged reliable messages from which opens
	// carry no items, so that thousands of opens at once, such as at a join or in the answer to
	// Missed, don't fill Config.SendLimit. A client accepts 256 KiB before it grants more.
	maxItemsUnacked = 256 << 10

	// maxOpenHead is the maximum number of bytes before the fields in an open message: the class
	// id, the flags, the Ref, a name with its length, and the mask.
	maxOpenHead = 3 + 1 + binary.MaxVarintLen64 + 2 + maxNameBytes + 9
)

// openMessage returns the first message on an actor's channel for c, which consists of a head,
// the states, and as many items as fit, which it takes from lists. It fails if the message is
// larger than limit bytes without any items. In a check of that, c and lists are nil.
func (a *Actor) openMessage(c *Conn, limit int, lists []keyed.Backlog) ([]byte, error) {
	fields := (a.fieldsFor(c) | a.states.initial()) &^ a.class.lists
	var withItems state.Mask
	var items []byte
	if lists != nil {
		room := min(limit, roomForItems(c))
		withItems, items = a.states.takeItems(lists, room-maxOpenHead-a.states.size(fields))
	}
	if fields|withItems == 0 {
		return a.openHead(c, 0), nil
	}
	message := state.AppendMask(a.openHead(c, flagState), fields|withItems, a.class.fields)
	message = append(a.states.appendTo(message, fields), items...)
	if len(message) > limit {
		return nil, errorf("rpc: open message for a %q has %d bytes with its states; the limit is %d (Config.Bunch.MaxBunch): %w",
			a.class.name, len(message), limit, bunch.ErrBunchTooLarge)
	}
	return message, nil
}

// roomForItems returns the maximum size of an open message with items for the client of c. It may
// be negative.
func roomForItems(c *Conn) int {
	c.link.Lock()
	defer c.link.Unlock()
	return min(maxOpenItems, c.terms.reliableBuffer/4*bunch.EntryBytes, maxItemsUnacked-c.machine.Stats().Unacked)
}

// openHead returns the head of an open message, which consists of the class id, the flags, the
// actor's Ref and, if the actor was placed, its name.
func (a *Actor) openHead(c *Conn, flags byte) []byte {
	id := a.world.table.id(a.class)
	if a.name != "" {
		flags |= flagPlaced
	}
	head := append(binary.AppendUvarint(nil, uint64(id)), flags|a.ownerFlags(c))
	head = binary.AppendUvarint(head, uint64(a.ref))
	if a.name != "" {
		head = wire.AppendBytes(head, a.name)
	}
	return head
}

// ownerFlags returns flagOwned if c owns the actor, and 0 otherwise. c may be nil.
func (a *Actor) ownerFlags(c *Conn) byte {
	if c != nil && a.conn == c {
		return flagOwned
	}
	return 0
}

// tellOwner tells a client that has the actor whether it owns the actor.
func (a *Actor) tellOwner(c *Conn) error {
	o := a.openingOn(c)
	switch {
	case !c.usable():
		return nil
	case o != nil:
		return a.send(o, ownerMessage, append(binary.AppendUvarint(nil, ownerMethod), a.ownerFlags(c)))
	case c.shown.detached[a] == Dormancy:
		// There's no channel for an owner message, so open one. The open message contains the
		// owner as well.
		return a.open(c)
	}
	return nil
}

// ownerMessage names the owner message in errors. It isn't a real method and can't be called.
var ownerMessage = &method{name: "Actor.SetOwner", delivery: bunch.Reliable}
