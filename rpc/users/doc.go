// Package users lets users log in to a server without the accounts of a platform. They log in with
// tokens, which the server keeps in a file, or with short login codes.
//
// The file has a line for each token, user:token, which may be followed by a note after " #".
// A user may have several tokens, one for each machine.
//
// [Add], [Revoke] and [List] are for the person who runs the server. They may run in another
// process, even while the server runs. A file that Add creates is readable only by its owner
// (mode 0600), whereas an existing file keeps its mode. The server opens the file:
//
//	known, err := users.Open("tokens.txt")
//	world, err := rpc.NewWorld(rpc.Config{Authenticate: known.Authenticator(logger)})
//	go known.Watch(ctx, world, 4001, time.Second, logger) // ends connections whose token was revoked, by a code of the game, 1,024 or more
//
// A client logs in with rpc.Config.Token. [Users.Identify] turns the token into an identity,
// which is what Conn.Identity returns from then on. Since an identity is only valid until the
// server ends, store things under its user, which [UserOf] returns.
//
// The same goes for transfers. A stream.Store gets identities from its caller, so wrap it in one
// that passes on their users instead, as in PORTING.md. Otherwise no transfer can continue after
// the server has ended. rpc.Config.MaxConnsPerIdentity counts each machine of a user separately.
//
// A client that is refused gets a *rpc.CloseError of code rpc.PreLoginFailure. Its Reason is
// the text of [ErrToken], [ErrTokens] or [ErrCode], or says what is wrong with the name or token
// of a machine that has tried to log in with a code.
//
// Two other errors, of code rpc.ServerFull, are Temporary, because the client may try again. One
// is [ErrUnchecked]. The other refuses an address that has sent rpc.Config.MaxLoginFailures wrong
// tokens or codes, and its Reason says when the address may try again.
//
// A token is too long to be typed in on another machine. That's what [Users.Invite] is for. It
// makes a login code, which is short, but only valid for one machine and ten minutes. The machine
// makes itself a token with crypto/rand.Text, stores it, and presents code and token as
// [ByCode] combines them. From then on it logs in with the token alone.
//
// Package users doesn't count wrong tokens and codes, because package rpc slows down clients that
// try many. A program that authenticates clients in another way must do that itself.
package users
