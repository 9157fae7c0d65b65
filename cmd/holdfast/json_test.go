package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/pkg/client"
)

// jsonOf is what each command with --json prints: the type that it gives to printJSON or,
// line by line, to printJSONLine. Several are what it prints with other flags.
var jsonOf = map[string][]any{
	"validate":             {validated{}},
	"apply":                {[]client.Applied{}},
	"definitions list":     {client.Page[client.Resource]{}},
	"definitions versions": {client.Page[client.Version]{}},
	"definitions diff":     {client.DefinitionDiff{}},
	"runs start":           {client.Started{}, client.Run{}, client.Event{}, deltaLine{}},
	"runs get":             {client.Run{}, client.Page[client.Event]{}},
	"runs why":             {client.Why{}},
	"runs list":            {client.Page[client.Run]{}},
	"runs watch":           {client.Event{}, deltaLine{}, client.Run{}},
	"runs cancel":          {commandResult{}, client.BulkRun{}},
	"runs pause":           {commandResult{}, client.BulkRun{}},
	"runs resume":          {commandResult{}, client.BulkRun{}},
	"runs retry":           {commandResult{}, client.BulkRun{}},
	"runs fork":            {client.Forked{}},
	"runs migrate":         {client.Migration{}, client.BulkRun{}},
	"runs message":         {client.Commanded{}},
	"runs delete":          {deleteResult{}, client.BulkRun{}},
	"runs deleted":         {client.Page[client.Deletion]{}},
	"approvals list":       {client.Page[client.Approval]{}, client.Page[client.ApprovalGroup]{}},
	"approvals show":       {client.Approval{}},
	"approvals approve":    {decisionResult{}},
	"approvals reject":     {decisionResult{}},
	"approvals settle":     {client.Approval{}},
	"approvals answer":     {client.Approval{}},
	"approvals edit":       {client.ApprovalEdit{}, client.Approval{}},
	"approvals defer":      {client.Approval{}},
	"approvals decide":     {client.ItemResult{}, client.Approval{}},
	"approvals audit":      {client.AuditRow{}},
	"notices list":         {client.Page[client.Notice]{}},
	"notices resend":       {client.Notice{}},
	"grants create":        {client.Grant{}},
	"grants list":          {client.Page[client.Grant]{}},
	"grants get":           {client.Grant{}},
	"grants revoke":        {client.Grant{}},
	"effects list":         {client.Page[client.Effect]{}},
	"effects show":         {client.Effect{}},
	"effects totals":       {client.EffectTotals{}},
	"effects resolve":      {client.Effect{}},
	"stop":                 {client.Stop{}},
	"cost":                 {client.CostReport{}},
	"start":                {client.Stop{}, client.Page[client.Stop]{}},
	"budgets list":         {client.Page[client.Budget]{}},
	"budgets show":         {client.Page[client.Budget]{}},
	"budgets raise":        {commandResult{}},
	"concurrency list":     {client.Page[client.ConcurrencyKey]{}},
	"durability":           {client.Durability{}},
	"overview":             {client.Overview{}},
	"doctor":               {client.Checkup{}},
	"artifacts list":       {client.Page[client.Artifact]{}},
	"tools list":           {client.Page[client.Tool]{}},
	"tools test":           {client.ToolTest{}},
	"events":               {streamLine{}},
	"schedules list":       {client.Page[client.Schedule]{}},
	"schedules show":       {client.Schedule{}},
	"schedules next":       {[]client.Fire{}},
	"schedules pause":      {client.Paused{}},
	"schedules resume":     {client.Resumed{}},
	"schedules trigger":    {client.Started{}},
	"schedules backfill":   {client.Tally{}},
	"schedules history":    {client.Page[client.PastFire]{}},
	"deliveries list":      {client.Page[client.Delivery]{}},
	"deliveries show":      {client.Delivery{}},
	"deliveries replay":    {client.Replayed{}, client.RangeReplayed{}},
	"signals send":         {map[string]string{}},
	"signals list":         {client.Page[client.Signal]{}},
	"webhooks test":        {client.HookTested{}},
	"tokens create":        {client.Token{}},
	"tokens list":          {client.Page[client.Token]{}},
	"tokens revoke":        {client.Token{}},
	"sessions list":        {client.Page[client.Session]{}},
	"sessions revoke":      {client.Session{}},
	"agents try":           {client.Event{}, deltaLine{}, approvalLine{}, client.Run{}},
	"agents list":          {client.Page[client.Resource]{}},
	"agents get":           {client.Resource{}},
	"audit list":           {client.Page[client.AuditAct]{}},
}

const jsonGolden = "testdata/json.txt"

// TestJSON_OnlyGrows holds what --json prints to testdata/json.txt, one member a line. A
// member may come, which "go generate ./cmd/holdfast" records; one that goes or changes
// its type breaks somebody's script: that takes a new major version, and an edit of the
// file by hand.
func TestJSON_OnlyGrows(t *testing.T) {
	t.Parallel()
	var now []string
	for command, shapes := range jsonOf {
		for _, shape := range shapes {
			now = append(now, members(command, reflect.TypeOf(shape), nil)...)
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	text, err := os.ReadFile(jsonGolden)
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	had := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), " ", "\x00"))
	for i := range had {
		had[i] = strings.ReplaceAll(had[i], "\x00", " ")
	}
	for _, line := range had {
		if _, ok := slices.BinarySearch(now, line); !ok {
			t.Errorf("%s is gone or another type: scripts read it; docs/json.md promises that members stay", line)
		}
	}
	var came []string
	for _, line := range now {
		if !slices.Contains(had, line) {
			came = append(came, line)
		}
	}
	switch {
	case *update && !t.Failed():
		if err := os.WriteFile(jsonGolden, []byte(strings.Join(now, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	case len(came) > 0:
		t.Errorf("new members, run go generate ./cmd/holdfast to promise them:\n%s", strings.Join(came, "\n"))
	}
	if len(now) < 500 {
		t.Errorf("only %d members: the test has lost its way", len(now))
	}
}

// TestJSON_EveryCommand wants each command with --json in jsonOf.
func TestJSON_EveryCommand(t *testing.T) {
	t.Parallel()
	parser, err := newParser(&CLI{}, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, c := range n.Children {
			walk(c)
		}
		for _, f := range n.Flags {
			if f.Name == "json" && n.Leaf() {
				seen[n.Path()] = true
				if jsonOf[n.Path()] == nil {
					t.Errorf("holdfast %s has --json: add what it prints to jsonOf in cmd/holdfast/json_test.go", n.Path())
				}
			}
		}
	}
	for _, n := range parser.Model.Children {
		if n.Group != nil && n.Group.Key == "work" {
			walk(n)
		}
	}
	for command := range jsonOf {
		if !seen[command] {
			t.Errorf("jsonOf has %q, which is no command with --json", command)
		}
	}
}

// members lists the members of a type as encoding/json writes it, with their kinds.
func members(path string, t reflect.Type, above []reflect.Type) (all []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	asText := reflect.TypeFor[interface{ MarshalText() ([]byte, error) }]()
	asJSON := reflect.TypeFor[json.Marshaler]()
	switch {
	case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
		return []string{path + " any"}
	case t.Implements(asJSON) || t.Implements(asText) || reflect.PointerTo(t).Implements(asJSON):
		return []string{path + " " + strings.ToLower(t.Name())}
	}
	switch t.Kind() {
	case reflect.Slice:
		return members(path+"[]", t.Elem(), above)
	case reflect.Map:
		return members(path+".*", t.Elem(), above)
	case reflect.Struct:
		if slices.Contains(above, t) {
			return []string{path + " again"}
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-":
			case f.Anonymous && name == "":
				all = append(all, members(path, f.Type, append(above, t))...)
			case f.IsExported():
				if name == "" {
					name = f.Name
				}
				all = append(all, members(fmt.Sprintf("%s.%s", path, name), f.Type, append(slices.Clone(above), t))...)
			}
		}
		return all
	}
	return []string{path + " " + map[bool]string{true: "text", false: strings.TrimRight(t.Kind().String(), "0123456789")}[t.Kind() == reflect.String]}
}
