package httpapi

import (
	"fmt"

	"github.com/holdfast-run/holdfast/pkg/spec"
	"github.com/holdfast-run/holdfast/web"
)

// flowNodes are the steps of a flow as a drawing and a list show them.
func flowNodes(f *spec.Flow) []web.GraphNode {
	out := make([]web.GraphNode, 0, len(f.Steps))
	for i := range f.Steps {
		st := &f.Steps[i]
		n := web.GraphNode{Name: st.Name, Kind: st.Kind(), Starts: st.Starts(), Nested: st.Flow != "", Needs: st.Needs}
		if n.Starts != "" {
			n.Href = definitionsPath + "/" + n.Kind + "/" + n.Starts
		}
		if st.ForEach != nil {
			n.Each = fmt.Sprintf("%s, %d at once", st.ForEach, st.Limit)
		}
		if st.When != nil {
			n.When = st.When.String()
		}
		if st.OnFailure == spec.OnFailureContinue {
			n.Then = "goes on without an item that fails"
		}
		if st.Retry != nil {
			n.Then = fmt.Sprintf("tries an item up to %d times", st.Retry.Attempts) + map[bool]string{true: ", then " + n.Then}[n.Then != ""]
		}
		out = append(out, n)
	}
	return out
}
