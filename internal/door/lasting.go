package door

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/internal/authn"
)

// verifyWithin bounds one look at the token of a request that lasts.
const verifyWithin = 5 * time.Second

// Lasting is the context of a request that goes on for long, as a stream. It also ends
//
//   - when the server begins to stop: the client comes back to another process
//   - when who sent the request may not send it again: the token or session was
//     revoked, has expired or is somebody else's by now. That is looked at every
//     Config.Recheck, whatever is sent meanwhile, and the client that comes back is refused
//
// While nobody can say whether a token counts, as without the database, the request goes on.
func Lasting(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	d, _ := ctx.Value(doorKey{}).(*Door)
	who, known := authn.FromContext(ctx)
	go func() {
		defer cancel()
		var look <-chan time.Time // never, where nobody was asked for
		if d != nil && known {
			// Those that began together do not ask together.
			look = time.After(rand.N(d.cfg.Recheck) + 1)
		}
		for {
			select {
			case <-Stopping(ctx):
				return
			case <-ctx.Done():
				return
			case <-look:
				if !d.stillFrom(r.WithContext(ctx), who) {
					return
				}
				look = time.After(d.cfg.Recheck)
			}
		}
	}()
	return ctx, cancel
}

// stillFrom reports whether r would be let in again as a request of who, as far as that
// can be known.
func (d *Door) stillFrom(r *http.Request, who authn.Principal) bool {
	ctx, cancel := context.WithTimeout(r.Context(), verifyWithin)
	defer cancel()
	now, err := d.authenticate(r.WithContext(ctx))
	if err != nil {
		status := From(err).Status
		return status != http.StatusUnauthorized && status != http.StatusForbidden
	}
	return now.Name == who.Name && now.Namespace == who.Namespace && now.Role == who.Role
}
