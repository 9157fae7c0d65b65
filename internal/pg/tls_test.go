package pg_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/internal/certtest"
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/pg"
	"github.com/holdfast-run/holdfast/internal/pgtest"
)

// secured is a way to the database of a URL which speaks TLS as a server of Postgres
// does: it says S to the request for it. secure counts the lines that were agreed on.
func secured(t *testing.T, to config.Secret, cert tls.Certificate) (port string, secure *atomic.Int32) {
	t.Helper()
	c, err := pgx.ParseConfig(to.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	network, address := addressOf(c)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure = &atomic.Int32{}
	var lines sync.WaitGroup
	t.Cleanup(func() { ln.Close(); lines.Wait() })
	line := func(client net.Conn) {
		defer client.Close()
		var request [8]byte
		if _, err := io.ReadFull(client, request[:]); err != nil || request[4] != 0x04 || request[5] != 0xd2 || request[6] != 0x16 || request[7] != 0x2f {
			return // not SSLRequest, 80877103
		}
		if _, err := client.Write([]byte("S")); err != nil {
			return
		}
		inner := tls.Server(client, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
		if inner.Handshake() != nil {
			return
		}
		secure.Add(1)
		server, err := net.Dial(network, address)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		back := make(chan struct{})
		go func() { defer close(back); _, _ = io.Copy(inner, server); client.Close() }()
		_, _ = io.Copy(server, inner)
		server.Close()
		<-back
	}
	lines.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			lines.Go(func() { line(client) })
		}
	})
	_, port, err = net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, secure
}

func addressOf(c *pgx.ConnConfig) (network, address string) {
	port := strconv.Itoa(int(c.Port))
	if strings.HasPrefix(c.Host, "/") {
		return "unix", c.Host + "/.s.PGSQL." + port
	}
	return "tcp", net.JoinHostPort(c.Host, port)
}

// With sslmode=verify-full the line is encrypted, and a server that shows a
// certificate of another authority, or of another host, is not spoken to.
func TestOpen_VerifiesTheServer(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t).URL
	ca, stranger := certtest.New(t), certtest.New(t)
	dir := t.TempDir()
	certFile, keyFile := ca.Issue(t, dir, "server")
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	port, secure := secured(t, database, cert)
	open := func(host, authority string) error {
		u, err := url.Parse(database.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort(host, port)
		q := u.Query()
		q.Del("host")
		q.Del("port")
		q.Set("sslmode", "verify-full")
		q.Set("sslrootcert", authority)
		u.RawQuery = q.Encode()
		pool, err := pg.Open(t.Context(), pg.Config{URL: config.Secret(u.String()), MaxConns: 1, AppName: "tls"})
		if err != nil {
			return err
		}
		defer pool.Close()
		_, err = pool.Exec(t.Context(), `SELECT 1`)
		return err
	}
	ours := ca.File(t, dir)
	if err := open("localhost", ours); err != nil || secure.Load() == 0 {
		t.Fatalf("with its authority: %v, %d lines", err, secure.Load())
	}
	if err := open("localhost", stranger.File(t, t.TempDir())); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("with another authority: %v", err)
	}
	if err := open("127.0.0.2", ours); err == nil {
		t.Error("with another host's certificate it connects")
	}
}
