package desk

import (
	"context"
	"errors"

	"github.com/quivernet/quiver/examples/savegame/versions"
	"github.com/quivernet/quiver/rpc"
)

// List returns the newest version of each of the client's saves by name, of those in the trash as well.
func (c *Client) List(ctx context.Context) ([]versions.Version, error) { return c.list(ctx, "") }

// History returns the versions of a save that are there, the newest last.
func (c *Client) History(ctx context.Context, name string) ([]versions.Version, error) {
	if err := versions.CheckName(name); err != nil {
		return nil, err // an empty one would list all
	}
	return c.list(ctx, name)
}

func (c *Client) list(ctx context.Context, name string) (list []versions.Version, err error) {
	n := c.next()
	_, err = askAndTalk(ctx, c, askList, n, listArgs{n, name}, func(t *talk) (err error) {
		list, err = t.hearVersions()
		return err
	})
	return list, err
}

// Restore makes a new version of what an old one holds, also of a save in the trash; version 0 is the last one that was put.
func (c *Client) Restore(ctx context.Context, name string, version int, machine string) (Stored, error) {
	m, err := ask(ctx, c, askRestore, editArgs{Name: name, Version: version, Machine: machine})
	return Stored{made: m}, err
}

// Remove puts a save into the trash: its versions stay for a while and can be restored.
func (c *Client) Remove(ctx context.Context, name, machine string) (versions.Version, error) {
	return ask(ctx, c, askRemove, editArgs{Name: name, Machine: machine})
}

// Erase deletes all versions of a save, for good. It fails with a [*versions.Conflict] when the newest one is neither the
// one seen nor in the trash, unless it is forced.
func (c *Client) Erase(ctx context.Context, name, machine string, seen versions.Ref, force bool) error {
	_, err := ask(ctx, c, askErase, editArgs{Name: name, Machine: machine, Seen: seen, Force: force})
	if errors.Is(err, errConflict) {
		err = c.conflict(ctx, name, seen, err)
	}
	return err
}

// Invite returns a login code for one more machine of the client's user.
func (c *Client) Invite(ctx context.Context) (code string, err error) {
	return ask(ctx, c, askInvite, rpc.None{})
}

// Redeem makes of a login code a token for a machine, and the same one again for who asks with the same secret, which the caller makes up.
// It is all that a guest may ask.
func (c *Client) Redeem(ctx context.Context, code, machine, secret string) (user, token string, err error) {
	l, err := ask(ctx, c, askRedeem, redemption{code, machine, secret})
	return l.User, l.Token, err
}
