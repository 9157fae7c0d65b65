// Package kube asks the code of Kubernetes and of Helm itself about what
// deploy/k8s and deploy/helm make: that Helm's engine renders what Kustomize
// builds, that an API server would accept every object, and that the restricted
// profile of pod security lets every pod run.
//
// It is a module of its own, which "make check-deploy" runs: its libraries take
// minutes to compile. What needs none of them is in test/deploy. It does not know
// the kinds of others (KEDA, the Gateway API, CloudNativePG), nor what admission
// webhooks and quotas of a cluster say.
package kube
