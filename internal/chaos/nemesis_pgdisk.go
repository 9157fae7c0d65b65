package chaos

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/pgdev"
	"github.com/holdfast-run/holdfast/pkg/events"
)

// pgRoom is what Postgres may still write before its disk is full.
const pgRoom = smallDisk / 2

var postgresFull = nemesis{
	name: "postgres-disk-full", what: "Postgres's data is on a file system that is full until a start was refused with 503 and for three seconds more; then there is room again, and Postgres is started if it has ended",
	possible: natsFull.possible,
	strike: func(ctx context.Context, r *rig) (err error) {
		data, kept := r.database.DataDir(), r.database.DataDir()+".kept"
		if err := r.database.Stop(ctx); err != nil {
			return err
		}
		used, err := sizeOf(data)
		if err != nil {
			return err
		}
		if err := errors.Join(os.Rename(data, kept), os.Mkdir(data, 0o700), mountSmall(data, used+pgRoom), run("cp", "-a", kept+"/.", data)); err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, r.database.Stop(ctx), os.RemoveAll(kept), run("cp", "-a", data, kept), unmount(data), os.Remove(data), os.Rename(kept, data), r.startPostgres(ctx))
		}()
		if err := r.startPostgres(ctx); err != nil {
			return err
		}
		ballast := filepath.Join(data, "ballast")
		if err := fill(ballast); err != nil {
			return err
		}
		accepted, refused := r.heavy(ctx)
		rest(ctx, 3*time.Second)
		if err := errors.Join(refused, os.Remove(ballast)); err != nil {
			return err
		}
		select {
		case <-r.database.Exited():
			if err := errors.Join(ignored(r.database.Stop(ctx)), r.startPostgres(ctx)); err != nil {
				return err
			}
		default:
		}
		end, done := context.WithTimeout(ctx, nemesisLimit)
		defer done()
		if n, problems := r.ends(end, accepted); n != len(accepted) {
			return fmt.Errorf("%d of %d heavy runs that were accepted completed: %s", n, len(accepted), strings.Join(problems, "; "))
		}
		return nil
	},
}

// ignored is for the end of a server that has ended itself.
func ignored(error) error { return nil }

// heavy starts runs with an input that needs room until one is refused, and says whether
// the refusal is one that a sender can go by.
func (r *rig) heavy(ctx context.Context) (accepted []events.RunID, err error) {
	name := rand.Text()
	for n := range 2000 {
		in, err := json.Marshal(map[string]any{"job": fmt.Sprintf("%s-%d", name, n), "do": []string{}, "weight": noise(48 << 10)})
		if err != nil {
			return accepted, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.services.Edge+"/v1/agents/clerk/runs", strings.NewReader(`{"input":`+string(in)+`}`))
		if err != nil {
			return accepted, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+r.services.Token)
		resp, err := r.hooks.Do(req)
		if err != nil {
			continue // nobody answers: nothing is promised
		}
		var a struct {
			RunID  events.RunID `json:"run_id"`
			Detail string       `json:"detail"`
			Code   string       `json:"code"`
		}
		err = json.NewDecoder(resp.Body).Decode(&a)
		_ = resp.Body.Close()
		switch {
		case err != nil:
			return accepted, fmt.Errorf("an answer of %s cannot be read: %w", resp.Status, err)
		case resp.StatusCode/100 == 2:
			accepted = append(accepted, a.RunID)
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" && a.Code != "" && a.Detail != "":
			return accepted, nil
		default:
			return accepted, fmt.Errorf("without room a start is answered %s, Retry-After %q, %+v", resp.Status, resp.Header.Get("Retry-After"), a)
		}
	}
	return accepted, errors.New("no start was refused, and there is no room")
}

// noise is text that cannot be made smaller.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// startPostgres starts it where the services know it to be.
func (r *rig) startPostgres(ctx context.Context) error {
	was := r.database.URL()
	database, err := pgdev.Start(ctx, pgdev.Config{Dir: filepath.Join(r.dir, "postgres")})
	if err != nil {
		return err
	}
	if r.database = database; database.URL() != was {
		return errors.New("Postgres came back at another address")
	}
	return nil
}

// sizeOf is how much is below a folder.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += (info.Size() + 4095) &^ 4095
		}
		return err
	})
	return bytes, err
}
