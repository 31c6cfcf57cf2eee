// Package users lets users log in to a server without the accounts of a platform: by tokens, which a file holds, and by login codes.
//
// The file has a line for each token, user:token, and perhaps a note behind " #". A user may have several, one for each machine. [Add], [Revoke]
// and [List] are for who runs the server; they may run in another process, also while the server does. A file that Add makes nobody else
// may read (mode 0600), and a file that is there keeps its mode. The server opens it:
//
//	known, err := users.Open("tokens.txt")
//	world, err := rpc.NewWorld(rpc.Config{Authenticate: known.Authenticator(logger)})
//	go known.Watch(ctx, world, 4001, time.Second, logger) // ends connections whose token was revoked, by a code of the game, 1,024 or more
//
// A client logs in by rpc.Config.Token. [Users.Identify] makes a token an identity, which Conn.Identity returns and which is good until the server
// ends: keep things under its user, which [UserOf] returns. A stream.Store is asked for what is stored under identities: put one that asks another
// by their users before it, as PORTING.md has it, or no transfer goes on after the server has ended. rpc.Config.MaxConnsPerIdentity counts each
// machine of a user for itself. A client that is refused gets a *rpc.CloseError of code rpc.PreLoginFailure, whose
// Reason is the text of [ErrToken], [ErrTokens] or [ErrCode], or says what is wrong with the name or token of a machine that comes by a code. Worth
// another try, and so Temporary, are two others, of code rpc.ServerFull: [ErrUnchecked], and the refusal of an address that has sent
// rpc.Config.MaxLoginFailures wrong ones, whose Reason says when the next one, which may be right, may come.
//
// A token is too long to be typed in on another machine. For that [Users.Invite] makes a login code, which is short and good for one machine within
// ten minutes. The machine makes itself a token, by crypto/rand.Text, keeps it, and presents both as [ByCode] puts them together; from then on it
// logs in by the token alone.
//
// Users does not count wrong tokens and codes: who lets others in than by package rpc, which slows down whoever tries many, must do that.
package users
