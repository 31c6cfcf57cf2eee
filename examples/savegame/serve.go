package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	desk "github.com/quivernet/quiver/examples/savegame/olddesk"
	"github.com/quivernet/quiver/examples/savegame/vault"
	"github.com/quivernet/quiver/rpc"
	"github.com/quivernet/quiver/rpc/cert"
)

// shutdownTime is how long a server waits for its jobs at the end.
const shutdownTime = 10 * time.Second

// serve runs a server until it is interrupted.
func (a *app) serve(ctx context.Context, c *cli.Command) error {
	if _, err := arguments(c, 0, 0); err != nil {
		return err
	}
	maxSize, err := parseSize(c.String("max-size"))
	if err != nil {
		return err
	}
	quota, err := parseSize(c.String("quota"))
	if err != nil {
		return err
	}
	var config desk.ServerConfig
	if config.Logger, config.LogLevel, err = newLogger(a.stderr, c.String("log")); err != nil {
		return err
	}
	socket, err := listen(c.String("addr")) // first: a server that can not begin leaves nothing behind
	if err != nil {
		return err
	}
	defer socket.Close()
	dir := c.String("dir")
	if config.Vault, err = vault.Open(dir, vault.Limits{MaxBytes: maxSize, Quota: quota}); err != nil {
		return err
	}
	certificate, err := cert.Load(dir)
	if err != nil {
		return err
	}
	if config.Guard, err = a.guard(c.String("token-file"), dir); err != nil {
		return err
	}
	return a.run(ctx, socket, certificate, config)
}

func listen(addr string) (*net.UDPConn, error) {
	local, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", addr, err)
	}
	socket, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, fmt.Errorf("address %s: %w", addr, vault.Reason(err))
	}
	return socket, nil
}

// guard returns who checks tokens, by a file of the user's or by one in the folder, which is made when it is missing.
func (a *app) guard(path, dir string) (*vault.Guard, error) {
	if path != "" {
		return vault.NewGuard(path)
	}
	path = filepath.Join(dir, "tokens.txt")
	made, err := vault.MakeTokens(path)
	if err != nil {
		return nil, err
	}
	guard, err := vault.NewGuard(path)
	if err != nil || !made {
		return guard, err
	}
	tokens, err := vault.ReadTokens(path)
	if err == nil {
		fmt.Fprintf(a.stdout, "token       %s (new, kept in %s)\n", tokens[0], path)
	}
	return guard, err
}

// run serves until ctx ends.
func (a *app) run(ctx context.Context, socket *net.UDPConn, certificate tls.Certificate, config desk.ServerConfig) error {
	server, err := desk.NewServer(config)
	if err != nil {
		return err
	}
	listener, err := rpc.ListenPacket(socket, &tls.Config{Certificates: []tls.Certificate{certificate}}, server.World())
	if err != nil {
		return fmt.Errorf("address %v: %w", socket.LocalAddr(), err)
	}
	fmt.Fprintf(a.stdout, "fingerprint %s\nlistening   %v\n", cert.Fingerprint(certificate), listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.World().Run(context.WithoutCancel(ctx)) }()
	<-ctx.Done()
	closing, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err = errors.Join(server.Close(closing, "the server shuts down"), listener.Close())
	if runErr := <-ended; !errors.Is(runErr, rpc.ErrClosed) {
		err = errors.Join(err, runErr)
	}
	return err
}
