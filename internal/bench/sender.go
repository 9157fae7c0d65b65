package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net"
	"strconv"
	"strings"
	"time"
)

// secret is what the senders sign with, and what the door is given.
const secret = "whsec_aG9sZGZhc3QtYmVuY2gtaG9sZGZhc3QtYmVuY2g="

// bodyOf appends the body of webhook n.
type bodyOf func(to []byte, n int) []byte

// flood sends signed webhooks, each with an id of its own, from senders at once,
// each on a connection of its own, one request after the other.
func flood(ctx context.Context, addr string, senders int, d time.Duration) (sample, error) {
	return run(ctx, senders, d, func(ctx context.Context) (func(context.Context) error, func(), error) {
		s, err := newSender(ctx, addr, intakeHook, appendBody)
		if err != nil {
			return nil, nil, err
		}
		return s.send, func() { _ = s.conn.Close() }, nil
	})
}

// sender speaks HTTP by hand: it shares the machine with what is measured, and an
// HTTP client library would cost about as much as the server.
type sender struct {
	conn net.Conn
	in   *bufio.Reader
	mac  hash.Hash
	id   string
	at   string // when it was opened; the door takes it for minutes
	head string // of every request, up to the length of its body
	n    int
	text bodyOf
	// Of one request, kept for the next.
	out, body, sum []byte
}

// newSender connects to the door at addr. It sends to the webhook that hook names.
func newSender(ctx context.Context, addr, hook string, text bodyOf) (*sender, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(at); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, err
	}
	return &sender{
		conn: conn, text: text, in: bufio.NewReader(conn), mac: hmac.New(sha256.New, key), id: "msg_" + rand.Text(), at: strconv.FormatInt(time.Now().Unix(), 10),
		head: "POST /hooks/" + hook + " HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: holdfast-bench\r\nContent-Type: application/json\r\nContent-Length: ",
	}, nil
}

// appendBody appends the body of webhook n: about two hundred bytes.
func appendBody(to []byte, n int) []byte {
	to = append(to, `{"type":"order.created","data":{"order":`...)
	to = strconv.AppendInt(to, int64(n), 10)
	return append(to, `,"shop":"shop-17","items":[{"sku":"A-1","count":2}],"note":"a body of about two hundred bytes, as small webhooks have them, with nothing else to say"}}`...)
}

// send posts the next webhook and wants 202.
func (s *sender) send(context.Context) error {
	s.n++
	return s.post()
}

// post posts webhook n.
func (s *sender) post() error {
	id := s.id + strconv.Itoa(s.n)
	s.body = s.text(s.body[:0], s.n)
	s.out = append(append(append(append(s.out[:0], id...), '.'), s.at...), '.')
	s.mac.Reset()
	s.mac.Write(s.out) // never fails
	s.mac.Write(s.body)
	s.sum = s.mac.Sum(s.sum[:0])
	s.out = strconv.AppendInt(append(s.out[:0], s.head...), int64(len(s.body)), 10)
	s.out = append(append(s.out, "\r\nwebhook-id: "...), id...)
	s.out = append(append(s.out, "\r\nwebhook-timestamp: "...), s.at...)
	s.out = base64.StdEncoding.AppendEncode(append(s.out, "\r\nwebhook-signature: v1,"...), s.sum)
	s.out = append(append(s.out, "\r\n\r\n"...), s.body...)
	if _, err := s.conn.Write(s.out); err != nil {
		return err
	}
	return s.receive()
}

func (s *sender) receive() error {
	line, err := s.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	status := ""
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 202 ")) {
		status = string(bytes.TrimSpace(line))
	}
	length := -1
	for {
		line, err := s.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
		}
	}
	if length < 0 {
		return errors.New("answer: it says no Content-Length")
	}
	if status != "" {
		rest, err := s.in.Peek(min(length, 400))
		return errors.Join(fmt.Errorf("answer: %s: %s", status, rest), err)
	}
	_, err = s.in.Discard(length)
	return err
}
