// Package cert makes certificates for servers that have none from an authority, stores them, and
// lets clients pin them.
package cert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quivernet/quiver/internal/files"
)

// certificateFile holds both the certificate and its key, so that neither ever exists without the
// other.
const certificateFile = "certificate.pem"

// Development makes a self-signed certificate for localhost and hosts (names or addresses).
// Clients can trust it by its [Fingerprint], with [Pinned].
//
// The certificate is valid for ten years. It's dated from yesterday, because the clocks of the
// two ends may differ.
func Development(hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: making a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "quiver development"},
		NotBefore:             time.Now().AddDate(0, 0, -1),
		NotAfter:              time.Now().AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: making a certificate for %q: %w", hosts, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: making a certificate for %q: %w", hosts, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

// Load returns the certificate that is stored in the folder dir. If there is none yet, it makes a
// [Development] certificate and stores it there, readable only by the file's owner.
//
// If the file is damaged, Load returns an error rather than replace it, because clients may have
// pinned the certificate.
func Load(dir string, hosts ...string) (tls.Certificate, error) {
	path := filepath.Join(dir, certificateFile)
	cert, err := readCertificate(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return cert, err
	}
	fresh, err := Development(hosts...)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := writeCertificate(path, fresh); err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: saving the certificate in %s: %w", dir, err)
	}
	// Read the file back. If another process was faster, it holds the other process's
	// certificate.
	return readCertificate(path)
}

// readCertificate reads a certificate and its key from a file.
func readCertificate(path string) (tls.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: reading the certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(data, data)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cert: %s does not contain a certificate and its key (move it aside to make a new one): %w",
			path, err)
	}
	return cert, nil
}

// writeCertificate creates the file at path, with all of its content at once. An existing file is
// left alone, except on a file system without links.
func writeCertificate(path string, cert tls.Certificate) error {
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	data = append(data, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temporary, err := files.WriteBeside(path, data)
	if err != nil {
		return err
	}
	defer os.Remove(temporary)
	defer syncFolders(filepath.Dir(path))

	// Unlike Rename, Link doesn't replace a file.
	if err := os.Link(temporary, path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	return os.Rename(temporary, path) // the file system has no links
}

// syncFolders makes sure that the names in a folder, and the folder's own name, are on the disk.
//
// Clients pin the certificate right away. If the file were lost in a power failure, we would make
// another certificate, which those clients wouldn't trust.
func syncFolders(folder string) {
	for _, path := range []string{folder, filepath.Dir(folder)} {
		_ = files.SyncFolder(path) // best effort, because we may not be allowed to read it
	}
}

// Fingerprint returns the SHA-256 of a certificate in hex, which is what clients pin. It returns
// "" if there is no certificate.
func Fingerprint(cert tls.Certificate) string {
	if len(cert.Certificate) == 0 {
		return ""
	}
	return fingerprintOf(cert.Certificate[0])
}

func fingerprintOf(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// ErrPinned means that a [Pinned] client dialed a server that has another certificate. Either it
// is another server, or its certificate is new.
var ErrPinned = errors.New("cert: the server's certificate is not the pinned one")

// Pinned returns the config of a client that trusts the certificate with this [Fingerprint]
// and no other, whatever its names and dates. Dialing another server fails with [ErrPinned].
//
// Case and colons in fingerprint do not matter. Pinned returns an error if fingerprint is not
// valid.
func Pinned(fingerprint string) (*tls.Config, error) {
	want := strings.ToLower(strings.NewReplacer(":", "", " ", "").Replace(fingerprint))
	if raw, err := hex.DecodeString(want); err != nil || len(raw) != sha256.Size {
		return nil, fmt.Errorf("cert: fingerprint %q must be the %d hex digits of a SHA-256 hash", fingerprint, 2*sha256.Size)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,

		// Skip the check of names, dates and authority. VerifyConnection decides instead, and the
		// handshake itself proves that the server has the key.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			return verifyPin(want, state.PeerCertificates)
		},
	}, nil
}

// verifyPin returns ErrPinned unless the fingerprint of the first certificate is want.
func verifyPin(want string, certs []*x509.Certificate) error {
	if len(certs) == 0 {
		return fmt.Errorf("%w: the server has no certificate; the pinned fingerprint is %s", ErrPinned, want)
	}
	got := fingerprintOf(certs[0].Raw)
	if subtle.ConstantTimeCompare([]byte(got), []byte(want)) != 1 {
		return fmt.Errorf("%w: the server's certificate has fingerprint %s; the pinned fingerprint is %s", ErrPinned, got, want)
	}
	return nil
}
