// Package users knows who may come in to a server that has no platform's accounts: it has tokens in a file, and login codes.
//
// A token file has a line for each token, user:token. [Add], [Revoke] and [List] are what an owner of a server does to it,
// while the server runs or not. The server opens it with [Open]: [Users.Identify] makes the token of a login an identity,
// and [Users.Valid] tells later which connections may stay. A world has both from [Users.Authenticator] and [Users.Watch].
//
// A token is long, and nobody likes to carry it to another machine. Login codes are for that, which [Users.Invite] makes: short,
// good for one machine within ten minutes, which has a token of its own making then ([ByCode]).
package users
