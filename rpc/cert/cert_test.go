package cert

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDevelopment(t *testing.T) {
	cert, err := Development("game.example", "10.0.0.7")
	require.NoError(t, err)
	require.IsType(t, &ecdsa.PrivateKey{}, cert.PrivateKey)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "game.example", "10.0.0.7"} {
		require.NoError(t, cert.Leaf.VerifyHostname(host), host)
	}
	require.Error(t, cert.Leaf.VerifyHostname("other.example"))
	require.True(t, cert.Leaf.NotBefore.Before(time.Now().Add(-23*time.Hour)))
	require.True(t, cert.Leaf.NotAfter.After(time.Now().AddDate(9, 0, 0)))

	roots := x509.NewCertPool()
	roots.AddCert(cert.Leaf)
	_, err = cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"})
	require.NoError(t, err)
}

func TestFingerprint(t *testing.T) {
	cert, err := Development()
	require.NoError(t, err)
	other, err := Development()
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{64}$", Fingerprint(cert))
	require.NotEqual(t, Fingerprint(cert), Fingerprint(other))
	require.Empty(t, Fingerprint(tls.Certificate{}))
}

// shake does a TLS handshake over loopback and returns the client's error.
func shake(t *testing.T, cert tls.Certificate, client *tls.Config) error {
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(t, err)
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := ln.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	c, err := tls.Dial("tcp", ln.Addr().String(), client)
	if err == nil {
		c.Close()
	}
	<-done
	return err
}

func pinned(t *testing.T, fingerprint string) *tls.Config {
	config, err := Pinned(fingerprint)
	require.NoError(t, err)
	return config
}

func TestPinned(t *testing.T) {
	cert, err := Development()
	require.NoError(t, err)
	other, err := Development()
	require.NoError(t, err)
	pin := Fingerprint(cert)

	require.NoError(t, shake(t, cert, pinned(t, pin)))
	require.NoError(t, shake(t, cert, pinned(t, strings.ToUpper(pin[:2])+":"+pin[2:])))
	require.ErrorContains(t, shake(t, other, pinned(t, pin)),
		"the server's certificate has fingerprint "+Fingerprint(other)+"; the pinned fingerprint is "+pin)
	require.ErrorIs(t, shake(t, other, pinned(t, pin)), ErrPinned)
	for _, bad := range []string{"", "abc", pin[:62], pin + "00", strings.Repeat("x", 64)} {
		_, err := Pinned(bad)
		require.EqualError(t, err, fmt.Sprintf("cert: fingerprint %q must be the 64 hex digits of a SHA-256 hash", bad))
	}
	require.ErrorContains(t, verifyPin(pin, nil), "no certificate")

	stolen := other // the pinned certificate without its key
	stolen.Certificate = cert.Certificate
	require.Error(t, shake(t, stolen, pinned(t, pin)))
}

func TestLoadCertificate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys", "here")
	first, err := Load(dir, "game.example")
	require.NoError(t, err)
	require.NoError(t, first.Leaf.VerifyHostname("game.example"))
	second, err := Load(dir)
	require.NoError(t, err)
	require.Equal(t, Fingerprint(first), Fingerprint(second))
	require.NoError(t, shake(t, second, pinned(t, Fingerprint(first))))

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")
	if runtime.GOOS != "windows" {
		info, err := entries[0].Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	path := filepath.Join(dir, certificateFile)
	require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
	_, err = Load(dir)
	require.ErrorContains(t, err, path+" does not contain a certificate and its key")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "damaged", string(data))

	_, err = Load(path)
	require.Error(t, err, "a file is no folder")
}

func TestLoadCertificateAtOnce(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	prints := make([]string, 8)
	for i := range prints {
		wg.Go(func() {
			if cert, err := Load(dir); err == nil {
				prints[i] = Fingerprint(cert)
			}
		})
	}
	wg.Wait()
	for _, p := range prints {
		require.NotEmpty(t, p)
		require.Equal(t, prints[0], p)
	}
}
