package notify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/services/approvals"
)

// Email sends mail through one server, over TLS only. The Message-ID is the
// message's, the same in every attempt; but most mailboxes show a repeat, so what
// may have been taken is not sent again.
type Email struct{ Config }

var _ approvals.Channel = (*Email)(nil)

// Runs implements approvals.Channel.
func (e *Email) Runs(c *spec.Channel) bool { return c.Email != nil }

// Repeats implements approvals.Channel.
func (e *Email) Repeats() bool { return false }

// Send implements approvals.Channel.
func (e *Email) Send(ctx context.Context, c *spec.Channel, m approvals.Message) approvals.Delivery {
	to := c.Email.To
	if m.To != "" {
		to = []string{m.To}
	}
	text, err := mailText(c.Email.From, to, m, time.Now())
	if err != nil {
		return approvals.Delivery{Verdict: approvals.Refused, Problem: err.Error()}
	}
	return e.deliver(ctx, c, to, text)
}

// deliver hands one mail to the server. Until the last line of the mail nothing is
// taken; behind it only the server's answer says so.
func (e *Email) deliver(ctx context.Context, c *spec.Channel, to []string, text []byte) approvals.Delivery {
	s, closing, err := e.session(ctx, c)
	if err != nil {
		return later(err)
	}
	defer closing()
	from, err := mail.ParseAddress(c.Email.From)
	if err != nil {
		return later(err)
	}
	if err := s.Mail(from.Address); err != nil {
		return smtpVerdict("sender", err)
	}
	var refused []string
	var last error
	for _, rcpt := range to {
		if err := s.Rcpt(rcpt); err != nil {
			if smtpVerdict("", err).Verdict != approvals.Refused {
				return smtpVerdict("recipient "+rcpt, err) // nobody has it yet: all again
			}
			refused, last = append(refused, rcpt), err
		}
	}
	if len(refused) == len(to) {
		return smtpVerdict("recipients", last)
	}
	w, err := s.Data()
	if err != nil {
		return smtpVerdict("mail", err)
	}
	if _, err := w.Write(text); err != nil {
		return later(errors.New("the connection broke before the mail was sent whole"))
	}
	if err := w.Close(); err != nil {
		if d := smtpVerdict("mail", err); d.Verdict == approvals.Refused || isReply(err) {
			return d
		}
		return approvals.Delivery{Verdict: approvals.Uncertain, Problem: "the mail was sent, and the server's answer did not come"}
	}
	d := approvals.Delivery{Verdict: approvals.Taken}
	if len(refused) > 0 {
		d.Problem = "the server does not know " + strings.Join(refused, ", ")
	}
	return d
}

// session is a connection that is protected and, with a user name, signed in.
func (e *Email) session(ctx context.Context, c *spec.Channel) (*smtp.Client, func(), error) {
	reach, err := e.reach(c)
	if err != nil {
		return nil, nil, err
	}
	conn, settings, err := e.Egress.Dial(ctx, c.Email.Server, reach)
	if err != nil {
		return nil, nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	fail := func(err error) (*smtp.Client, func(), error) {
		stop()
		_ = conn.Close()
		return nil, nil, err
	}
	if c.Email.Security == spec.EmailTLS {
		secured := tls.Client(conn, settings)
		if err := secured.HandshakeContext(ctx); err != nil {
			return fail(fmt.Errorf("TLS with the mail server: %w", err))
		}
		conn = secured
	}
	host, _, _ := net.SplitHostPort(c.Email.Server)
	s, err := smtp.NewClient(conn, host)
	if err != nil {
		return fail(fmt.Errorf("greeting of the mail server: %w", err))
	}
	if err := s.Hello("holdfast.invalid"); err != nil {
		return fail(fmt.Errorf("mail server: %w", err))
	}
	if c.Email.Security != spec.EmailTLS {
		if ok, _ := s.Extension("STARTTLS"); !ok {
			return fail(errors.New("the mail server offers no STARTTLS; nothing is said without it"))
		}
		if err := s.StartTLS(settings); err != nil {
			return fail(fmt.Errorf("STARTTLS with the mail server: %w", err))
		}
	}
	if c.Email.Username != "" {
		password, err := e.secret("email.password", c.Email.Password)
		if err != nil {
			return fail(err)
		}
		if err := s.Auth(smtp.PlainAuth("", c.Email.Username, password, host)); err != nil {
			return fail(errors.New("the mail server did not accept user name and password"))
		}
	}
	return s, func() { stop(); _ = s.Quit(); _ = conn.Close() }, nil
}

func isReply(err error) bool {
	_, ok := errors.AsType[*textproto.Error](err)
	return ok
}

// smtpVerdict says what a refusal means: 5xx is for good, the rest passes.
func smtpVerdict(what string, err error) approvals.Delivery {
	d := approvals.Delivery{Verdict: approvals.NotTaken, Problem: what + ": the connection to the mail server broke"}
	if e, ok := errors.AsType[*textproto.Error](err); ok {
		d.Problem = fmt.Sprintf("%s: the mail server answered %d %s", what, e.Code, cutTo(e.Msg, 200))
		if e.Code >= 500 {
			d.Verdict = approvals.Refused
		}
	}
	return d
}

// mailText is the mail, in plain text: nothing in it is markup, and no header
// takes a line end from anybody.
func mailText(from string, to []string, m approvals.Message, now time.Time) ([]byte, error) {
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return nil, err
	}
	_, host, _ := strings.Cut(sender.Address, "@")
	sum := sha256.Sum256([]byte(m.ID))
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, oneLine(value)) }
	header("From", sender.String())
	header("To", strings.Join(to, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", oneLine(m.Title)))
	header("Date", now.UTC().Format("Mon, 02 Jan 2006 15:04:05 -0700"))
	header("Message-ID", "<"+hex.EncodeToString(sum[:16])+"@"+host+">")
	header("Auto-Submitted", "auto-generated")
	header("X-Auto-Response-Suppress", "All")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	body := quotedprintable.NewWriter(&b)
	var text strings.Builder
	text.WriteString(m.Title + "\n\n")
	for _, f := range m.Facts {
		text.WriteString(f.Name + ": " + strings.ReplaceAll(f.Value, "\n", "\n    ") + "\n")
	}
	if m.Link != "" {
		text.WriteString("\nSee it and decide. The address is yours alone; do not pass it on:\n" + m.Link + "\n")
	}
	if m.Hint != "" {
		text.WriteString("\n" + m.Hint + "\n")
	}
	if _, err := body.Write([]byte(strings.ReplaceAll(text.String(), "\n", "\r\n"))); err != nil {
		return nil, err
	}
	return b.Bytes(), body.Close()
}

// oneLine takes what would end a header's line.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, s)
}
