package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/internal/config"
)

// ConfigCmd shows the settings of "serve" as they would be.
type ConfigCmd struct {
	Output

	DatabaseSettings
	NatsSettings
	ProcessSettings
	ServiceSettings
	EdgeSettings
	NatsServerSettings

	Listen       string `group:"http" placeholder:"ADDR" help:"Where the doors listen."`
	HealthListen string `group:"http" placeholder:"ADDR" help:"Where the health pages listen."`
	TLSCert      string `name:"tls-cert" group:"http" placeholder:"FILE" help:"The doors' certificate."`
	TLSKey       string `name:"tls-key" group:"http" placeholder:"FILE" help:"Its key."`
	TLSClientCA  string `name:"tls-client-ca" group:"http" placeholder:"FILE" help:"Authorities of clients' certificates."`
}

// Help implements kong.HelpProvider.
func (*ConfigCmd) Help() string {
	return `Shows every setting of "holdfast serve" with its value and whether that came from
a flag, the environment or the default. Secrets show as [redacted]. Flags may be
given to see what they would do:

  HOLDFAST_RUNNER_MODEL_SLOTS=8 holdfast config --tools-slots 4`
}

// setting is one line of the output.
type setting struct {
	Flag   string `json:"flag"`
	Env    string `json:"env"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, env, default
	Help   string `json:"help"`
}

// Run implements the command.
func (c *ConfigCmd) Run(k *kong.Context) error {
	all := settings(k)
	if c.JSON {
		return printJSON(k.Stdout, all)
	}
	rows := make([][]string, 0, len(all))
	for _, s := range all {
		rows = append(rows, []string{"--" + s.Flag, s.Value, s.Source})
	}
	return table(k.Stdout, []string{"SETTING", "VALUE", "FROM"}, rows)
}

// settings lists the flags of the selected command.
func settings(k *kong.Context) []setting {
	given := map[*kong.Flag]bool{}
	for _, p := range k.Path {
		if p.Flag != nil && !p.Resolved {
			given[p.Flag] = true
		}
	}
	var all []setting
	for _, f := range k.Selected().Flags {
		if f.Name == "help" || f.Name == "json" {
			continue
		}
		s := setting{Flag: f.Name, Env: strings.Join(f.Envs, ","), Value: show(k.FlagValue(f)), Source: "default", Help: f.Help}
		for _, env := range f.Envs {
			if _, set := os.LookupEnv(env); set {
				s.Source = "env " + env
			}
		}
		if given[f] {
			s.Source = "flag"
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b setting) int { return cmp.Compare(a.Flag, b.Flag) })
	return all
}

// show prints a value as it would be typed; of a URL with a password only what
// may be seen.
func show(v any) string {
	switch v := v.(type) {
	case config.Secret:
		if strings.Contains(v.Reveal(), "://") {
			return config.RedactURL(v)
		}
		return v.String()
	case []string:
		return strings.Join(v, ",")
	case interface{ String() string }:
		return v.String()
	}
	return fmt.Sprint(v)
}
