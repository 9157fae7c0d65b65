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
	"net"
	"strconv"
	"strings"
	"time"
)

// secret is what the senders sign with, and what the door is given.
const secret = "whsec_aG9sZGZhc3QtYmVuY2gtaG9sZGZhc3QtYmVuY2g="

// flood sends signed webhooks, each with an id of its own, from senders at once,
// each on a connection of its own, one request after the other.
func flood(ctx context.Context, addr string, senders int, d time.Duration) (sample, error) {
	return run(ctx, senders, d, func(ctx context.Context) (func(context.Context) error, func(), error) {
		s, err := newSender(ctx, addr)
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
	out  bytes.Buffer
	addr string
	key  []byte
	id   string
	n    int
}

func newSender(ctx context.Context, addr string) (*sender, error) {
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
	return &sender{conn: conn, in: bufio.NewReader(conn), addr: addr, key: key, id: "msg_" + rand.Text()}, nil
}

// send posts one webhook and wants 202.
func (s *sender) send(context.Context) error {
	s.n++
	id := s.id + strconv.Itoa(s.n)
	at := strconv.FormatInt(time.Now().Unix(), 10)
	body := fmt.Appendf(nil, `{"type":"order.created","data":{"order":%d,"shop":"shop-17","items":[{"sku":"A-1","count":2}],"note":"a body of about two hundred bytes, as small webhooks have them, with nothing else to say"}}`, s.n)
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(id + "." + at + ".")) // never fails
	h.Write(body)
	s.out.Reset()
	fmt.Fprintf(&s.out, "POST /hooks/%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: holdfast-bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"webhook-id: %s\r\nwebhook-timestamp: %s\r\nwebhook-signature: v1,%s\r\n\r\n", Webhook, s.addr, len(body), id, at, base64.StdEncoding.EncodeToString(h.Sum(nil)))
	s.out.Write(body)
	if _, err := s.conn.Write(s.out.Bytes()); err != nil {
		return err
	}
	return s.receive()
}

func (s *sender) receive() error {
	status, err := s.in.ReadString('\n')
	if err != nil {
		return err
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
	if !strings.HasPrefix(status, "HTTP/1.1 202 ") {
		rest, err := s.in.Peek(min(length, 400))
		return errors.Join(fmt.Errorf("answer: %s: %s", strings.TrimSpace(status), rest), err)
	}
	_, err = s.in.Discard(length)
	return err
}
