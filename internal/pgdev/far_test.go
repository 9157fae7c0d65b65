package pgdev

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Only clusters with our mark go, and only when their owner was deleted.
func TestSweepFar(t *testing.T) {
	t.Parallel()
	parent, owners := t.TempDir(), t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cluster := func(name string) (far, dir string) {
		far, dir = filepath.Join(parent, name), filepath.Join(owners, name, "postgres")
		must(os.MkdirAll(filepath.Join(far, "data"), 0o755))
		must(os.MkdirAll(dir, 0o755))
		must(os.Symlink(far, filepath.Join(dir, linkName)))
		must(writeOwner(far, dir))
		return far, dir
	}
	want := map[string]bool{} // stays
	_, _ = cluster("pg-owned")
	want["pg-owned"] = true
	_, dir := cluster("pg-deleted")
	must(os.RemoveAll(filepath.Dir(dir)))
	want["pg-deleted"] = false
	_, dir = cluster("pg-emptied")
	must(os.Remove(filepath.Join(dir, linkName)))
	want["pg-emptied"] = false
	_, dir = cluster("pg-replaced")
	must(os.Remove(filepath.Join(dir, linkName)))
	must(os.Symlink(filepath.Join(parent, "pg-owned"), filepath.Join(dir, linkName)))
	want["pg-replaced"] = false
	far, dir := cluster("pg-unmarked")
	must(os.RemoveAll(dir))
	must(os.Remove(filepath.Join(far, ownerFile)))
	want["pg-unmarked"] = true
	far, dir = cluster("pg-unmounted")
	must(os.RemoveAll(dir))
	b, err := json.Marshal(owner{dir, 12345})
	must(err)
	must(os.WriteFile(filepath.Join(far, ownerFile), b, 0o600))
	want["pg-unmounted"] = true
	far, dir = cluster("pg-unreadable-pid")
	must(os.RemoveAll(dir))
	must(os.WriteFile(filepath.Join(far, "data", "postmaster.pid"), []byte("garbage"), 0o600))
	want["pg-unreadable-pid"] = true
	far, dir = cluster("pg-stale-pid")
	must(os.RemoveAll(dir))
	must(os.WriteFile(filepath.Join(far, "data", "postmaster.pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600))
	want["pg-stale-pid"] = false // this process is no server
	_, dir = cluster("elsewhere")
	must(os.RemoveAll(dir))
	want["elsewhere"] = true

	sweepFar(t.Context(), parent)
	for name, stays := range want {
		if _, err := os.Stat(filepath.Join(parent, name)); (err == nil) != stays {
			t.Errorf("%s: %v, should stay: %t", name, err, stays)
		}
	}
}
