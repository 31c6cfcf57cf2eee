// Package users knows who may come in.
//
// A token file has a line for each token, user:token. [Add], [Revoke] and [List] are what an owner of a server does to
// it, while the server runs or not. The server opens it with [Open]: [Users.Identify] turns the token of a login into a
// connection's identity, and [Users.Watch] says when the file has changed, so that the server asks [Users.Valid] of the
// identity of each connection and ends those whose tokens were revoked.
//
// A token is long, and nobody likes to carry it to another machine. [Codes] are for that: short, good for one login
// within ten minutes, after which the machine has a token of its own.
package users
