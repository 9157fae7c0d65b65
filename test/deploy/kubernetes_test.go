package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-run/holdfast/pkg/events"
)

// folders are the ways to deploy that deploy/k8s has, with components that an
// overlay may add.
var folders = map[string]string{
	"base": "base", "dev": "overlays/dev", "prod": "overlays/prod", "prod with components": "overlays/prod-components",
}

// each builds every way to deploy, the chart's, too.
func each(t *testing.T, check func(t *testing.T, name string, o objects)) {
	t.Helper()
	dir := manifests(t)
	overlay(t, dir, "prod-components", "resources: [../prod]\ncomponents: [../../components/gateway, ../../components/cloudnative-pg]\nnamespace: holdfast\n")
	for name, folder := range folders {
		t.Run(name, func(t *testing.T) { check(t, name, decodeAll(t, kustomize(t, filepath.Join(dir, folder)))) })
	}
	for name, layers := range map[string][]string{"chart": nil, "prod of the chart": {prodValues(t)}} {
		t.Run(name, func(t *testing.T) {
			check(t, name, decodeAll(t, documents(render(t, "holdfast", values(t, layers...)))))
		})
	}
}

func TestKubernetes_Deployments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, way string, o objects) {
		if len(o.deployments) != 6 {
			t.Errorf("%d deployments, want the five services and edge", len(o.deployments))
		}
		if !strings.Contains(way, "chart") && o.namespaces["holdfast"].Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			t.Error("the namespace does not enforce the restricted profile")
		}
		shared := o.configMaps["holdfast"].Data
		for name, d := range o.deployments {
			pod := d.Spec.Template
			if len(pod.Spec.Containers) != 1 {
				t.Fatalf("%s has %d containers", name, len(pod.Spec.Containers))
			}
			c := pod.Spec.Containers[0]
			confinedPod(t, name, pod.Spec)
			if !strings.HasPrefix(c.Image, "ghcr.io/holdfast-run/holdfast:") {
				t.Errorf("%s: kustomize did not set the image: %s", name, c.Image)
			}
			if got := replicas(o, name); (way == "dev" && got != 1) || (way != "dev" && got < 2) {
				t.Errorf("%s: %d replicas; one is none while it moves", name, got)
			}
			for what, p := range map[string]*corev1.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
				want := "/live"
				if what == "readiness" {
					want = "/ready"
				}
				if p == nil || p.HTTPGet == nil || p.HTTPGet.Path != want || p.HTTPGet.Port.String() != "health" || p.PeriodSeconds == 0 {
					t.Errorf("%s: %s probe is %+v, want %s at the health port", name, what, p, want)
				}
			}
			drain := duration(t, shared["HOLDFAST_SHUTDOWN_DELAY"]) + duration(t, shared["HOLDFAST_SHUTDOWN_GRACE"])
			if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil || time.Duration(*grace)*time.Second <= drain {
				t.Errorf("%s is killed before its own %s are over", name, drain)
			}
			if len(c.EnvFrom) == 0 || c.EnvFrom[0].ConfigMapRef == nil || c.EnvFrom[0].ConfigMapRef.Name != "holdfast" {
				t.Errorf("%s does not read the shared settings", name)
			}
			for _, from := range c.EnvFrom[1:] {
				if from.SecretRef == nil || from.SecretRef.Name != name {
					t.Errorf("%s reads the environment of %+v; a secret belongs to one service", name, from)
				}
			}
			if diff := cmp.Diff(d.Spec.Selector.MatchLabels, pod.Labels); diff != "" {
				t.Errorf("%s does not select its own pods (-selector +labels):\n%s", name, diff)
			}
			for _, spread := range pod.Spec.TopologySpreadConstraints {
				if diff := cmp.Diff(pod.Labels, spread.LabelSelector.MatchLabels); diff != "" {
					t.Errorf("%s spreads other pods over %s (-labels +selector):\n%s", name, spread.TopologyKey, diff)
				}
			}
			pdb := o.budgets[name].Spec
			if pdb.Selector == nil || pdb.MaxUnavailable == nil || pdb.MaxUnavailable.IntValue() != 1 || !maps.Equal(pod.Labels, pdb.Selector.MatchLabels) {
				t.Errorf("%s is not protected while nodes are drained: %+v", name, pdb)
			}
			for _, v := range pod.Spec.Volumes {
				if v.Secret != nil && v.Secret.SecretName == "holdfast-nats" && name != "holdfast-edge" {
					// Its own password and no other's.
					if diff := cmp.Diff([]corev1.KeyToPath{{Key: c.Name, Path: "password"}}, v.Secret.Items); diff != "" {
						t.Errorf("%s sees passwords of others (-want +got):\n%s", name, diff)
					}
					continue
				}
				if v.Secret != nil && v.Secret.SecretName != "holdfast-database" && !(name == "holdfast-console" && v.Secret.SecretName == "holdfast-oidc") {
					t.Errorf("%s mounts the secret %s", name, v.Secret.SecretName)
				}
			}
			if _, there := o.accounts[pod.Spec.ServiceAccountName]; !there {
				t.Errorf("%s names the service account %q, which is not there", name, pod.Spec.ServiceAccountName)
			}
		}
	})
}

// replicas is how many pods of a deployment there are at least.
func replicas(o objects, name string) int32 {
	for _, s := range o.scalers {
		if s.Spec.ScaleTargetRef.Name == name && s.Spec.MinReplicas != nil {
			return *s.Spec.MinReplicas
		}
	}
	for _, s := range o.lagScalers {
		if s.Spec.ScaleTargetRef.Name == name {
			return int32(s.Spec.MinReplicaCount)
		}
	}
	if n := o.deployments[name].Spec.Replicas; n != nil {
		return *n
	}
	return 1
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// confinedPod checks what every pod must have, whatever it runs.
func confinedPod(t *testing.T, name string, pod corev1.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the pod's security context is %+v", name, s)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Errorf("%s gets a token of the cluster and needs none", name)
	}
	volumes := map[string]bool{"data": true} // of a StatefulSet's claims
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Errorf("%s: the folder %s may fill the node's disk", name, v.Name)
		}
	}
	for _, c := range pod.Containers {
		if s := c.SecurityContext; s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: the container's security context is %+v", name, s)
		}
		for what, got := range map[string]corev1.ResourceList{"requests": c.Resources.Requests, "limits": c.Resources.Limits} {
			if got.Cpu().IsZero() || got.Memory().IsZero() {
				t.Errorf("%s: %s are %v, want cpu and memory", name, what, got)
			}
		}
		var mounts []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.MountPath)
			if !volumes[m.Name] {
				t.Errorf("%s mounts the volume %s, which is not there", name, m.Name)
			}
		}
		paths := slices.Clone(c.Args)
		for _, e := range c.Env {
			paths = append(paths, e.Value)
		}
		for _, p := range paths {
			_, path, ok := strings.Cut(p, "/run/secrets/")
			if ok && !slices.Contains(mounts, "/run/secrets/"+filepath.Dir(path)) {
				t.Errorf("%s reads %s, which nothing mounts", name, p)
			}
		}
	}
}

func TestKubernetes_Migrate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, o objects) {
		j, ok := o.jobs["holdfast-migrate"]
		if !ok || len(o.jobs) != 1 {
			t.Fatalf("jobs: %v, want holdfast-migrate", o.jobs)
		}
		confinedPod(t, "holdfast-migrate", j.Spec.Template.Spec)
		if got := j.Spec.Template.Spec.RestartPolicy; got != corev1.RestartPolicyOnFailure {
			t.Errorf("restart policy %s", got)
		}
	})
}

func TestKubernetes_Services(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, _ string, o objects) {
		pods := map[string]corev1.PodTemplateSpec{}
		for name, d := range o.deployments {
			pods[name] = d.Spec.Template
		}
		for name, s := range o.statefulSets {
			pods[name] = s.Spec.Template
			confinedPod(t, name, s.Spec.Template.Spec)
			if diff := cmp.Diff(s.Spec.Selector.MatchLabels, s.Spec.Template.Labels); diff != "" || s.Spec.ServiceName != name {
				t.Errorf("%s does not select its own pods (-selector +labels):\n%s", name, diff)
			}
		}
		for name, s := range o.services {
			pod, ok := pods[name]
			if !ok {
				t.Errorf("the service %s leads to nothing", name)
				continue
			}
			if diff := cmp.Diff(pod.Labels, s.Spec.Selector); diff != "" {
				t.Errorf("the service %s selects other pods (-labels +selector):\n%s", name, diff)
			}
			for _, p := range s.Spec.Ports {
				if port := portOf(pod, p.TargetPort.String()); port != p.Port || p.TargetPort.String() == "health" {
					t.Errorf("the service %s leads to port %s %d, the pod's is %d", name, p.TargetPort.String(), p.Port, port)
				}
			}
		}
		for name := range pods {
			if _, ok := o.services[name]; !ok && name != "holdfast-runner" {
				t.Errorf("%s has doors and no service", name)
			}
		}
	})
}

// portOf is the number of a pod's named port; 0 when it has none.
func portOf(pod corev1.PodTemplateSpec, name string) int32 {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == name {
				return p.ContainerPort
			}
		}
	}
	return 0
}

// What is named is there: secrets that an overlay makes itself, the doors of the
// Ingress and of the route, the deployments that are scaled.
func TestKubernetes_NamesLead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, way string, o objects) {
		if way == "dev" {
			for name, d := range o.deployments {
				for _, v := range d.Spec.Template.Spec.Volumes {
					if v.Secret == nil || v.Secret.Optional != nil && *v.Secret.Optional {
						continue
					}
					if _, there := o.secrets[v.Secret.SecretName]; !there {
						t.Errorf("%s mounts the secret %s, which nobody makes", name, v.Secret.SecretName)
					}
				}
			}
		}
		for _, in := range o.ingresses {
			for _, r := range in.Spec.Rules {
				for _, p := range r.HTTP.Paths {
					if p.Backend.Service.Name != "holdfast-edge" || p.Backend.Service.Port.Name != o.services["holdfast-edge"].Spec.Ports[0].Name {
						t.Errorf("the ingress leads to %+v", p.Backend.Service)
					}
				}
			}
		}
		for _, r := range o.routes {
			if to := r.Spec.Rules[0].BackendRefs[0]; to.Name != "holdfast-edge" || to.Port != o.services["holdfast-edge"].Spec.Ports[0].Port {
				t.Errorf("the route leads to %+v", to)
			}
		}
		for name, s := range o.scalers {
			d, there := o.deployments[s.Spec.ScaleTargetRef.Name]
			if !there || d.Spec.Replicas != nil || s.Spec.MinReplicas == nil || *s.Spec.MinReplicas >= s.Spec.MaxReplicas {
				t.Errorf("%s scales %+v", name, s.Spec)
			}
		}
		if strings.HasPrefix(way, "prod") && (len(o.scalers)+len(o.lagScalers) != len(o.deployments) || len(o.ingresses) != 1) {
			t.Errorf("%d and %d autoscalers of %d deployments, %d ingresses", len(o.scalers), len(o.lagScalers), len(o.deployments), len(o.ingresses))
		}
		if with := way == "prod with components"; len(o.routes) == 1 != with || len(o.clusters) == 1 != with {
			t.Errorf("%d routes, %d clusters", len(o.routes), len(o.clusters))
		}
		for _, c := range o.clusters {
			var roles []string
			for _, r := range c.Spec.Managed.Roles {
				roles = append(roles, strings.TrimPrefix(r.Name, "holdfast_"))
			}
			if diff := cmp.Diff([]string{"trigger", "runner", "tools", "approvals", "console"}, roles); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// Runner and tools are scaled by the consumers that provisioning makes, all of them.
func TestKubernetes_LagIsOfConsumersThatAreThere(t *testing.T) {
	t.Parallel()
	want := map[string][]string{"holdfast-tools": {"TOOLS " + events.ToolConsumer("default"), "TOOLS " + events.ToolConsumer("callbacks")}}
	for _, what := range events.StepKinds() {
		want["holdfast-runner"] = append(want["holdfast-runner"], "RUNS "+events.StepConsumer(what))
	}
	each(t, func(t *testing.T, way string, o objects) {
		if !strings.HasPrefix(way, "prod") {
			return
		}
		got := map[string][]string{}
		for name, s := range o.lagScalers {
			if s.Spec.ScaleTargetRef.Name != name || s.Spec.MinReplicaCount >= s.Spec.MaxReplicaCount || o.deployments[name].Spec.Replicas != nil {
				t.Errorf("%s scales %+v", name, s.Spec)
			}
			var names []string
			for _, trigger := range s.Spec.Triggers {
				got[name] = append(got[name], trigger.Metadata.Stream+" "+trigger.Metadata.Consumer)
				names = append(names, trigger.Name)
			}
			if f := s.Spec.Advanced.ScalingModifiers.Formula; f != "" && f != strings.Join(names, " + ") {
				t.Errorf("%s sums %s", name, f)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("scaled by (-want +got):\n%s", diff)
		}
	})
}
