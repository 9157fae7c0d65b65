package demo

import (
	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/lab"
)

// newServices plans the processes of the night: two of each that may lose one.
func newServices(c Config, database config.Secret, dir string, w *world) (*lab.Services, error) {
	key := c.APIKey
	env := []string{
		"HOLDFAST_LOG_LEVEL=debug",
		"HOLDFAST_EGRESS_ALLOW=127.0.0.0/8",
		"HOLDFAST_TOOL_PRICING_URL=" + w.pricesURL,
		"HOLDFAST_WEBHOOK_SECRET=whsec_ZGVtby1kZW1vLWRlbW8tZGVtby1kZW1v",
	}
	if c.Model == "" {
		key = "scripted"
		env = append(env, "ANTHROPIC_BASE_URL="+w.modelURL)
	}
	env = append(env, "ANTHROPIC_API_KEY="+key)
	return lab.NewServices(lab.ServicesConfig{
		Binary: c.Binary, Database: database, Dir: dir, Env: env, Replicas: map[string]int{"runner": 2, "tools": 2},
	})
}
