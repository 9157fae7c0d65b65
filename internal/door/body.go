package door

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// OwnBody as a raw operation's MaxBodyBytes leaves the body to its handler,
// which reads it by ReadBody. The door then only bounds the time it may take.
const OwnBody = -1

// Codes of ReadBody.
const (
	CodeEncoding   = "invalid_encoding" // not what its Content-Encoding says
	CodeIncomplete = "incomplete_body"  // the connection ended before the body
)

const (
	// largeBody is from where on a body needs one of the places for large ones.
	largeBody = 256 << 10
	// largeBodies is how many are in memory at once; more wait, then get 503.
	largeBodies  = 4
	largePatient = 5 * time.Second
	// bombRatio is how many times a body may expand beyond its first megabyte.
	// Text that programs write expands 10 to 50 times.
	bombRatio = 200
	bombFree  = 1 << 20
)

// ReadBody reads a body of at most limit bytes, counted after decompression:
// gzip is understood. A larger one is a 413 that names limit and size; what is
// beyond the limit is counted up to twice the limit and kept nowhere.
//
// Large bodies of all requests share a few places in memory: done gives the
// place back and belongs where the body is no longer needed. It may be called
// more than once and is never nil.
func ReadBody(r *http.Request, limit int64) (body []byte, done func(), err error) {
	done = func() {}
	if r.Body == nil || r.Body == http.NoBody {
		return nil, done, nil
	}
	wire := &counter{r: r.Body}
	var src io.Reader = wire
	switch enc := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ","))); enc {
	case "", "identity":
		if r.ContentLength > limit {
			return nil, done, bodyTooLarge(limit, r.ContentLength)
		}
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(wire)
		if err != nil {
			return nil, done, badEncoding(err)
		}
		src = &inflated{z: z, wire: wire}
	default:
		return nil, done, Error(http.StatusUnsupportedMediaType, CodeMediaType,
			fmt.Sprintf("the body has the encoding %.40q; send it plain or with gzip", enc))
	}
	room := int64(16 << 10)
	if src == wire && r.ContentLength > 0 {
		room = min(room, r.ContentLength+1) // the one more is for reading the end
	}
	buf := make([]byte, 0, room)
	for {
		if len(buf) == cap(buf) {
			if len(buf) >= largeBody && cap(buf) < 2*largeBody { // the first growth beyond
				if done, err = takePlace(r.Context()); err != nil {
					return nil, func() {}, err
				}
			}
			grown := make([]byte, len(buf), min(int64(2*cap(buf)), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := src.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			size, whole := rest(src, int64(len(buf)), 2*limit)
			done()
			return nil, func() {}, tooLong(limit, size, whole)
		}
		if errors.Is(err, io.EOF) {
			return buf, done, nil
		}
		if err != nil {
			done()
			if errors.Is(err, io.ErrUnexpectedEOF) {
				err = Error(http.StatusBadRequest, CodeIncomplete, "the body ended before its length").Because(err)
			}
			return nil, func() {}, err
		}
	}
}

// rest counts what follows, up to most in all.
func rest(src io.Reader, size, most int64) (total int64, whole bool) {
	n, err := io.CopyN(io.Discard, src, most-size)
	return size + n, errors.Is(err, io.EOF)
}

func tooLong(limit, size int64, whole bool) error {
	if whole {
		return bodyTooLarge(limit, size)
	}
	return Error(http.StatusRequestEntityTooLarge, CodeBodyTooLarge,
		fmt.Sprintf("the body has more than %d bytes, the limit is %d", size, limit))
}

func badEncoding(err error) error {
	return Error(http.StatusBadRequest, CodeEncoding, "the body is not whole gzip: "+err.Error())
}

// counter counts what came over the wire.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// inflated expands a body and stops when it expands like a bomb.
type inflated struct {
	z    *gzip.Reader
	wire *counter
	n    int64
}

func (g *inflated) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	g.n += int64(n)
	if g.n > bombFree && g.n > bombRatio*g.wire.n {
		return n, Error(http.StatusRequestEntityTooLarge, CodeBodyTooLarge, fmt.Sprintf(
			"the body expands to more than %d bytes, which is more than %d times what was sent; send it plain", g.n, bombRatio))
	}
	if err != nil && !errors.Is(err, io.EOF) && (errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || corrupt(err)) {
		return n, badEncoding(err)
	}
	return n, err
}

// corrupt reports whether err is compress/flate's word on bad data.
func corrupt(err error) bool { return strings.HasPrefix(err.Error(), "flate: ") }

// places are those for large bodies of this process.
var places = make(chan struct{}, largeBodies)

func takePlace(ctx context.Context) (done func(), err error) {
	wait := time.NewTimer(largePatient)
	defer wait.Stop()
	select {
	case places <- struct{}{}:
		return sync.OnceFunc(func() { <-places }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
		return nil, Error(http.StatusServiceUnavailable, CodeUnavailable,
			"too many large bodies are being read; send it again").After(2 * time.Second)
	}
}
