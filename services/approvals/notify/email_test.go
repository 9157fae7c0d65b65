package notify

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// mailServer is a server of mail with a certificate of its own.
type mailServer struct {
	address, ca string
	implicit    bool // TLS from the first byte
	plain       bool // offers no STARTTLS
	// reply answers a command in its own way; empty is the usual answer, "drop" ends
	// the connection.
	reply func(command string) string

	mu    sync.Mutex
	lines []string
	mails []string
}

func newMailServer(t *testing.T, s *mailServer) *mailServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	settings := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); s.serve(c, settings) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return s
}

func (s *mailServer) serve(c net.Conn, settings *tls.Config) {
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if s.implicit {
		c = tls.Server(c, settings)
	}
	say := func(text string) { _, _ = io.WriteString(c, text+"\r\n") }
	in := bufio.NewReader(c)
	say("220 mail")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		if s.reply != nil {
			if text := s.reply(line); text == "drop" {
				return
			} else if text != "" {
				say(text)
				continue
			}
		}
		switch verb := strings.ToUpper(strings.Fields(line + " x")[0]); verb {
		case "EHLO":
			_, secured := c.(*tls.Conn)
			if !s.plain && !secured {
				say("250-mail\r\n250 STARTTLS")
			} else {
				say("250-mail\r\n250 AUTH PLAIN")
			}
		case "STARTTLS":
			say("220 go on")
			c = tls.Server(c, settings)
			in = bufio.NewReader(c)
		case "AUTH":
			say("235 welcome")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				l, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if l == ".\r\n" {
					break
				}
				text.WriteString(l)
			}
			s.mu.Lock()
			s.mails = append(s.mails, text.String())
			s.mu.Unlock()
			if s.reply != nil {
				if text := s.reply("."); text == "drop" {
					return
				} else if text != "" {
					say(text)
					continue
				}
			}
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func (s *mailServer) send(t *testing.T, m approvals.Message, change ...func(*spec.Channel)) approvals.Delivery {
	t.Helper()
	env := map[string]string{"CA": s.ca, "PW": "pass-word"}
	e := &Email{Config{Egress: egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
		LookupEnv: func(k string) (string, bool) { v, ok := env[k]; return v, ok }, ReadFile: os.ReadFile}}
	c := &spec.Channel{TLS: &spec.TLS{CA: spec.SecretRef{Env: "CA"}}, Email: &spec.EmailChannel{
		Server: s.address, Security: spec.EmailStartTLS, Username: "u", Password: spec.SecretRef{Env: "PW"}, From: "Holdfast <holdfast@example.com>", To: []string{"ops@example.com", "ben@example.com"}}}
	for _, f := range change {
		f(c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return e.Send(ctx, c, m)
}

var failure = approvals.Message{
	ID: "r-notice-failed", Title: "Agent x\r\nBcc: all@example.com: ü <b>", Hint: "holdfast runs get r",
	Facts: []approvals.Shown{{Name: "error", Value: "<script>alert(1)</script>\n.\nQUIT\nFrom: nobody"}},
}

func TestEmail_OneMailInPlainText(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*mailServer{"STARTTLS": {}, "TLS": {implicit: true}} {
		newMailServer(t, s)
		for range 2 {
			d := s.send(t, failure, func(c *spec.Channel) {
				if s.implicit {
					c.Email.Security = spec.EmailTLS
				}
			})
			if d.Verdict != approvals.Taken || d.Problem != "" {
				t.Fatalf("%s: %+v", name, d)
			}
		}
		if len(s.mails) != 2 {
			t.Fatalf("%s: %d mails", name, len(s.mails))
		}
		got, err := mail.ReadMessage(strings.NewReader(s.mails[0]))
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, s.mails[0])
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || subject != "Agent xBcc: all@example.com: ü <b>" || got.Header.Get("Bcc") != "" {
			t.Errorf("%s: subject %q, bcc %q (%v)", name, subject, got.Header.Get("Bcc"), err)
		}
		if got.Header.Get("Content-Type") != "text/plain; charset=utf-8" || got.Header.Get("To") != "ops@example.com, ben@example.com" {
			t.Errorf("%s: %v", name, got.Header)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
		if err != nil || !strings.Contains(string(body), "<script>alert(1)</script>\r\n    .\r\n    QUIT") {
			t.Errorf("%s: %q (%v)", name, body, err)
		}
		id := func(text string) string {
			_, rest, _ := strings.Cut(text, "Message-ID: ")
			id, _, _ := strings.Cut(rest, "\r\n")
			return id
		}
		if a, b := id(s.mails[0]), id(s.mails[1]); a == "" || a != b {
			t.Errorf("%s: Message-IDs %q and %q, want one in every attempt", name, a, b)
		}
		if all := strings.Join(s.lines, "\n"); strings.Count(all, "RCPT TO:") != 4 || strings.Contains(all, "pass-word") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// What is for one person goes to that person alone, with the link.
func TestEmail_ALinkIsForOne(t *testing.T) {
	t.Parallel()
	s := newMailServer(t, &mailServer{})
	m := failure
	m.To, m.Link = "ann@example.com", "https://holdfast.example.com/decide/token"
	if d := s.send(t, m); d.Verdict != approvals.Taken {
		t.Fatalf("%+v", d)
	}
	got, err := mail.ReadMessage(strings.NewReader(s.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if err != nil || got.Header.Get("To") != "ann@example.com" || strings.Count(strings.Join(s.lines, "\n"), "RCPT TO:") != 1 || !strings.Contains(string(body), m.Link) {
		t.Errorf("to %s: %s (%v)", got.Header.Get("To"), body, err)
	}
}

// Until the mail is there whole nothing is taken; behind it only an answer says so.
func TestEmail_WhatCanGoWrong(t *testing.T) {
	t.Parallel()
	on := func(prefix, answer string) *mailServer {
		return &mailServer{reply: func(line string) string {
			if strings.HasPrefix(line, prefix) {
				return answer
			}
			return ""
		}}
	}
	for name, tc := range map[string]struct {
		s      *mailServer
		change func(*spec.Channel)
		want   approvals.Verdict
		text   string
	}{
		"no STARTTLS":            {s: &mailServer{plain: true}, want: approvals.NotTaken, text: "offers no STARTTLS"},
		"nobody listens":         {s: &mailServer{}, change: func(c *spec.Channel) { c.Email.Server = "127.0.0.1:1" }, want: approvals.NotTaken, text: "refused"},
		"an address of ours":     {s: &mailServer{}, change: func(c *spec.Channel) { c.Email.Server = "169.254.169.254:25" }, want: approvals.NotTaken, text: "address is not allowed"},
		"another certificate":    {s: &mailServer{}, change: func(c *spec.Channel) { c.TLS = nil }, want: approvals.NotTaken, text: "certificate"},
		"the password is wrong":  {s: on("AUTH", "535 no"), want: approvals.NotTaken, text: "did not accept user name and password"},
		"no password":            {s: &mailServer{}, change: func(c *spec.Channel) { c.Email.Password.Env = "GONE" }, want: approvals.NotTaken, text: "GONE is not set"},
		"the sender is refused":  {s: on("MAIL", "550 no"), want: approvals.Refused, text: "550"},
		"busy":                   {s: on("RCPT", "451 later"), want: approvals.NotTaken, text: "451"},
		"nobody is known":        {s: on("RCPT", "550 who"), want: approvals.Refused, text: "550"},
		"one is not known":       {s: on("RCPT TO:<ben@", "550 who"), want: approvals.Taken, text: "ben@example.com"},
		"the mail is refused":    {s: on(".", "554 spam"), want: approvals.Refused, text: "554"},
		"the mail is put off":    {s: on(".", "452 full"), want: approvals.NotTaken, text: "452"},
		"the answer never comes": {s: on(".", "drop"), want: approvals.Uncertain, text: "answer did not come"},
		"gone before the mail":   {s: on("DATA", "drop"), want: approvals.NotTaken, text: "broke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newMailServer(t, tc.s)
			d := tc.s.send(t, failure, func(c *spec.Channel) {
				if tc.change != nil {
					tc.change(c)
				}
			})
			if d.Verdict != tc.want || !strings.Contains(d.Problem, tc.text) || strings.Contains(fmt.Sprint(d), "pass-word") {
				t.Errorf("%+v, want verdict %d with %q", d, tc.want, tc.text)
			}
		})
	}
}
