package main

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/internal/config"
	"github.com/holdfast-run/holdfast/internal/egress"
	"github.com/holdfast-run/holdfast/internal/oidc"
	"github.com/holdfast-run/holdfast/services/console/httpapi"
)

// SignInSettings say how people sign in with a browser.
type SignInSettings struct {
	ConsolePublicURL string        `name:"console-public-url" group:"sign-in" placeholder:"URL" help:"Where people reach the console: https://holdfast.example.com. With https, cookies are bound to it; every service must be told the same."`
	SessionLifetime  time.Duration `group:"sign-in" default:"12h" help:"How long somebody stays signed in at most; groups are asked for again at the next sign-in (${default})."`
	SessionIdle      time.Duration `group:"sign-in" default:"2h" help:"How long an unused session lasts (${default})."`

	ConsoleAuditRetention time.Duration `group:"sign-in" default:"9600h" help:"How long the audit keeps what was done; at least 24h (${default}, 400 days)."`

	OIDCIssuer           string        `name:"oidc-issuer" group:"sign-in" placeholder:"URL" help:"The OpenID provider at which people sign in: https://login.example.com/realms/main. Needs --console-public-url, --oidc-client-id and --oidc-map. Without it only tokens sign in."`
	OIDCTitle            string        `name:"oidc-title" group:"sign-in" default:"single sign-on" help:"What the button calls the provider (${default})."`
	OIDCClientID         string        `name:"oidc-client-id" group:"sign-in" placeholder:"ID" help:"What the provider calls this installation. Register the redirect URL PUBLIC_URL/ui/sign-in/callback there."`
	OIDCClientSecret     config.Secret `name:"oidc-client-secret" group:"sign-in" placeholder:"SECRET" help:"The client's secret; without one the client is a public one."`
	OIDCClientSecretFile string        `name:"oidc-client-secret-file" group:"sign-in" placeholder:"FILE" help:"File that holds the client's secret."`
	OIDCScopes           []string      `name:"oidc-scopes" group:"sign-in" default:"openid,profile,email" help:"What is asked for (${default}). Some providers send groups only for a scope of that name."`
	OIDCNameClaim        string        `name:"oidc-name-claim" group:"sign-in" default:"email" enum:"email,sub" help:"What names a person: email, the verified address in lower case; or sub, the provider's own name with @ and its host (${default})."`
	OIDCGroupsClaim      string        `name:"oidc-groups-claim" group:"sign-in" default:"groups" help:"Member of the ID token, or of userinfo, that lists a person's groups; realm_access.roles is one inside another (${default})."`
	OIDCMap              []string      `name:"oidc-map" group:"sign-in" placeholder:"GROUP=NAMESPACE/ROLE" help:"What a group may be here: payments=default/operator. The group * is everybody who can sign in. Who is in no group of the map has no access. The first that fits is what a person is at first. Repeatable."`
	OIDCSkew             time.Duration `name:"oidc-skew" group:"sign-in" default:"1m" help:"How far the provider's clock may be from ours (${default})."`
}

// Validate joins every problem that flags alone cannot see.
func (s SignInSettings) Validate() error {
	var errs []error
	if err := checkPublicURL(s.ConsolePublicURL); err != nil {
		errs = append(errs, fmt.Errorf("--console-public-url: %w", err))
	}
	if s.SessionIdle < 5*time.Minute || s.SessionIdle > s.SessionLifetime || s.SessionLifetime > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("--session-idle is %s and --session-lifetime %s, want 5m or more of the first, the second no shorter, and 720h at most", s.SessionIdle, s.SessionLifetime))
	}
	if s.ConsoleAuditRetention < 24*time.Hour {
		errs = append(errs, fmt.Errorf("--console-audit-retention is %s, want at least 24h", s.ConsoleAuditRetention))
	}
	if s.OIDCSkew < 0 || s.OIDCSkew > 10*time.Minute {
		errs = append(errs, fmt.Errorf("--oidc-skew is %s, want 0s to 10m", s.OIDCSkew))
	}
	if s.OIDCIssuer == "" {
		if s.OIDCClientID != "" || len(s.OIDCMap) > 0 || s.OIDCClientSecret != "" || s.OIDCClientSecretFile != "" {
			errs = append(errs, errors.New("--oidc-issuer is missing: the other --oidc settings mean nothing without it"))
		}
		return errors.Join(errs...)
	}
	if u, err := url.Parse(s.OIDCIssuer); err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopbackName(u.Hostname())) {
		errs = append(errs, fmt.Errorf("--oidc-issuer is %q, want an https URL without query, as the provider spells it", s.OIDCIssuer))
	}
	if s.OIDCClientID == "" {
		errs = append(errs, errors.New("--oidc-client-id is missing"))
	}
	if s.ConsolePublicURL == "" {
		errs = append(errs, errors.New("--console-public-url is missing: the provider sends people back there"))
	}
	if s.OIDCClientSecret != "" && s.OIDCClientSecretFile != "" {
		errs = append(errs, errors.New("--oidc-client-secret and --oidc-client-secret-file exclude each other"))
	}
	if len(s.OIDCMap) == 0 {
		errs = append(errs, errors.New("--oidc-map is missing: without it nobody has access; like --oidc-map ops=default/operator"))
	}
	if _, err := oidc.ParseMapping(s.OIDCMap); err != nil {
		errs = append(errs, fmt.Errorf("--oidc-map: %w", err))
	}
	return errors.Join(errs...)
}

func loopbackName(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// secure reports whether browsers reach this installation over https only.
func (s SignInSettings) secure() bool { return strings.HasPrefix(s.ConsolePublicURL, "https://") }

// signIn is how people sign in at this process.
func (p *process) signIn() (httpapi.SignIn, error) {
	s := p.services.SignInSettings
	how := httpapi.SignIn{Title: s.OIDCTitle, PublicURL: strings.TrimRight(s.ConsolePublicURL, "/"), Lifetime: s.SessionLifetime, Idle: s.SessionIdle}
	if s.OIDCIssuer == "" {
		return how, nil
	}
	secret := s.OIDCClientSecret
	var err error
	if s.OIDCClientSecretFile != "" {
		if secret, err = config.ReadSecret(s.OIDCClientSecretFile); err != nil {
			return how, usage(fmt.Errorf("--oidc-client-secret-file: %w", err))
		}
	}
	if how.Mapping, err = oidc.ParseMapping(s.OIDCMap); err != nil {
		return how, usage(fmt.Errorf("--oidc-map: %w", err))
	}
	out, err := p.egress()
	if err != nil {
		return how, err
	}
	transport, err := out.Transport(egress.Reach{})
	if err != nil {
		return how, err
	}
	how.Provider = oidc.New(oidc.Config{
		Issuer: s.OIDCIssuer, ClientID: s.OIDCClientID, Secret: secret, RedirectURL: how.PublicURL + httpapi.CallbackPath, Scopes: s.OIDCScopes,
		GroupsClaim: s.OIDCGroupsClaim, NameClaim: s.OIDCNameClaim, Skew: s.OIDCSkew, Client: egress.Via(transport),
	})
	return how, nil
}
