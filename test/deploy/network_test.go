package deploy

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// end is one end of a connection: a pod of this namespace, a pod of another, or an
// address outside.
type end struct {
	pod       map[string]string
	ports     []corev1.ContainerPort
	namespace map[string]string // nil in our own
	address   string
}

// reaches reports whether the policies let from open a connection to a port of to.
// Source of the rules: kubernetes.io/docs/concepts/services-networking/network-policies.
func (o objects) reaches(t *testing.T, from, to end, port int32) bool {
	t.Helper()
	pass := func(self, other end, way networkingv1.PolicyType) bool {
		if self.pod == nil || self.namespace != nil {
			return true // not ours to say
		}
		chosen, allowed := false, false
		for _, p := range o.networks {
			if !slices.Contains(p.Spec.PolicyTypes, way) || !matches(t, &p.Spec.PodSelector, self.pod) {
				continue
			}
			chosen = true
			if way == networkingv1.PolicyTypeIngress {
				for _, r := range p.Spec.Ingress {
					allowed = allowed || portFits(r.Ports, to, port) && peerFits(t, r.From, other)
				}
				continue
			}
			for _, r := range p.Spec.Egress {
				allowed = allowed || portFits(r.Ports, to, port) && peerFits(t, r.To, other)
			}
		}
		return !chosen || allowed
	}
	return pass(from, to, networkingv1.PolicyTypeEgress) && pass(to, from, networkingv1.PolicyTypeIngress)
}

func matches(t *testing.T, s *metav1.LabelSelector, on map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(on))
}

func portFits(ports []networkingv1.NetworkPolicyPort, to end, port int32) bool {
	for _, p := range ports {
		switch {
		case p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP:
		case p.Port == nil, p.Port.Type == intstr.Int && p.Port.IntVal == port:
			return true
		case p.Port.Type == intstr.String:
			for _, c := range to.ports {
				if c.Name == p.Port.StrVal && c.ContainerPort == port {
					return true
				}
			}
		}
	}
	return len(ports) == 0
}

func peerFits(t *testing.T, peers []networkingv1.NetworkPolicyPeer, other end) bool {
	t.Helper()
	for _, p := range peers {
		switch {
		case p.IPBlock != nil:
			if other.address == "" {
				continue
			}
			at := netip.MustParseAddr(other.address)
			in := netip.MustParsePrefix(p.IPBlock.CIDR).Contains(at)
			for _, except := range p.IPBlock.Except {
				in = in && !netip.MustParsePrefix(except).Contains(at)
			}
			if in {
				return true
			}
		case other.pod == nil:
		case p.NamespaceSelector != nil && (other.namespace == nil || !matches(t, p.NamespaceSelector, other.namespace)):
		case p.NamespaceSelector == nil && other.namespace != nil:
		case p.PodSelector == nil || matches(t, p.PodSelector, other.pod):
			return true
		}
	}
	return len(peers) == 0
}

// The doors are behind the edge, the edge is open to all, and each service reaches
// what it needs and nothing else.
func TestKubernetes_NetworkPolicies(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, way string, o objects) {
		ends := map[string]end{
			"internet": {address: "203.0.113.7"}, "internet v6": {address: "2001:db9::7"}, "metadata": {address: "169.254.169.254"}, "a node": {address: "10.0.0.9"},
			"a neighbour": {pod: map[string]string{"app": "neighbour"}}, // in our namespace
			"a stranger":  {pod: map[string]string{"app": "stranger"}, namespace: map[string]string{"kubernetes.io/metadata.name": "other"}},
			"prometheus":  {pod: map[string]string{"app": "prometheus"}, namespace: map[string]string{"holdfast.run/metrics": "true"}},
			"dns":         {pod: map[string]string{"k8s-app": "kube-dns"}, namespace: map[string]string{"kubernetes.io/metadata.name": "kube-system"}},
		}
		for name, d := range o.deployments {
			ends[name] = end{pod: d.Spec.Template.Labels, ports: d.Spec.Template.Spec.Containers[0].Ports}
		}
		ends["holdfast-migrate"] = end{pod: o.jobs["holdfast-migrate"].Spec.Template.Labels}
		nats, postgres := "a node", "a node"
		if way == "dev" {
			nats, postgres = "nats", "postgres"
			for _, name := range []string{nats, postgres} {
				pod := o.statefulSets[name].Spec.Template
				ends[name] = end{pod: pod.Labels, ports: pod.Spec.Containers[0].Ports}
			}
		}
		ports := []int32{53, 80, 443, 4222, 5432, 8701, 8702, 8703, 8704, 8711, 8712, 8713, 8714, 8715, 8787, 8797}
		want := map[string]bool{}
		allow := func(from, to string, port int32) { want[from+" > "+to+" "+strconv.Itoa(int(port))] = true }
		services := []string{"holdfast-trigger", "holdfast-runner", "holdfast-tools", "holdfast-approvals", "holdfast-console"}
		for _, s := range append(services, "holdfast-migrate") {
			allow(s, nats, 4222)
			allow(s, postgres, 5432)
		}
		for i, s := range []string{"holdfast-trigger", "holdfast-tools", "holdfast-approvals", "holdfast-console"} {
			allow("holdfast-edge", s, 8701+int32(i))
		}
		for name := range ends {
			allow(name, "holdfast-edge", 8787)
		}
		for i, s := range []string{"holdfast-trigger", "holdfast-tools", "holdfast-approvals", "holdfast-console", "holdfast-runner"} {
			allow("prometheus", s, 8711+int32(i))
		}
		allow("prometheus", "holdfast-edge", 8797)
		for _, to := range []string{"internet", "internet v6"} {
			for _, from := range []string{"holdfast-runner", "holdfast-tools", "holdfast-approvals", "holdfast-console"} {
				allow(from, to, 443)
			}
			for _, port := range ports { // where a tool is, its definition says
				allow("holdfast-tools", to, port)
			}
		}
		for _, from := range append(services, "holdfast-migrate", "holdfast-edge") {
			allow(from, "dns", 53)
			delete(want, from+" > holdfast-edge 8787") // services speak over NATS, never through the door
		}
		for _, from := range []string{"nats", "postgres"} {
			delete(want, from+" > holdfast-edge 8787")
		}
		for from, a := range ends {
			for to, b := range ends {
				for _, port := range ports {
					if from == to || a.ports == nil && b.ports == nil && from != "holdfast-migrate" {
						continue // neither is ours
					}
					key := from + " > " + to + " " + strconv.Itoa(int(port))
					// By port alone where it is not known where they are.
					data := way != "dev" && b.ports == nil && (port == 4222 || port == 5432) && slices.Contains(append(services, "holdfast-migrate"), from)
					if got := o.reaches(t, a, b, port); got != want[key] && !(got && data) {
						t.Errorf("%s: %t, want %t", key, got, want[key])
					}
				}
			}
		}
		if a, b := ends["holdfast-approvals"], ends["internet"]; !o.reaches(t, a, b, 587) || !o.reaches(t, a, ends["a node"], 465) || o.reaches(t, ends["holdfast-runner"], b, 587) {
			t.Error("mail is approvals' alone")
		}
	})
}
