package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/apiserver"
)

// namespaceOf returns the namespace of a service. A single namespace for all services is the most expensive case: listing it returns
// all objects, and some controllers of kube-controller-manager do this for each change to a pod.
func (o *options) namespaceOf(service int) string { return namespaceName(service % o.namespaces) }

func namespaceName(number int) string {
	if number == 0 {
		return "bench"
	}
	return fmt.Sprintf("bench-%d", number)
}

// nodes is the number of simulated nodes, which accept any number of pods.
const nodes = 10

// startTimeout is the maximum startup time of each part of the control plane.
const startTimeout = 2 * time.Minute

// auditPolicy records one line for each completed request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
`

// plane is a running control plane with simulated nodes.
type plane struct {
	dir         string
	auditPath   string
	environment *envtest.Environment
	config      *rest.Config
	client      client.WithWatch
	images      *images
	gateway     *gateway
	started     []*process // The processes in the order in which they were started. They are stopped in reverse order.
}

// startPlane starts the control plane, the nodes, the registry, and the gateway, and installs CRDs. If it
// fails, it stops everything that it started.
func startPlane(ctx context.Context, o *options, dir string, definitions []string) (_ *plane, err error) {
	p := &plane{dir: dir, auditPath: filepath.Join(dir, "audit.log")}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	if err := p.startServer(o, definitions); err != nil {
		return nil, err
	}
	if p.client, err = p.newClient("benchscale", p.config); err != nil {
		return nil, err
	}
	if err := p.createNodes(ctx); err != nil {
		return nil, err
	}
	if err := p.startKwok(o); err != nil {
		return nil, err
	}
	if err := p.startControllerManager(ctx, o); err != nil {
		return nil, err
	}
	if p.images, err = newImages(); err != nil {
		return nil, err
	}
	p.gateway = &gateway{plane: p}
	return p, p.gateway.start(ctx)
}

// startServer starts etcd and kube-apiserver.
func (p *plane) startServer(o *options, definitions []string) error {
	policy := filepath.Join(p.dir, "audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return fmt.Errorf("write audit policy: %w", err)
	}
	p.environment = &envtest.Environment{
		BinaryAssetsDirectory:    o.assets,
		CRDDirectoryPaths:        definitions,
		ErrorIfCRDPathMissing:    true,
		CRDInstallOptions:        envtest.CRDInstallOptions{MaxTime: startTimeout},
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	server := p.environment.ControlPlane.GetAPIServer().Configure()
	for name, value := range map[string]string{
		"service-cluster-ip-range":       "10.96.0.0/12",
		"audit-policy-file":              policy,
		"audit-log-path":                 p.auditPath,
		"audit-log-maxsize":              "1000000", // in megabytes: one file
		"max-requests-inflight":          "1000",
		"max-mutating-requests-inflight": "500",
		"event-ttl":                      "3h",
	} {
		server.Set(name, value)
	}
	var err error
	if p.config, err = p.environment.Start(); err != nil {
		return fmt.Errorf("start etcd and kube-apiserver: %w", err)
	}
	p.config.QPS = -1
	return nil
}

// newClient returns a client without a rate limit.
func (p *plane) newClient(agent string, config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = agent
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("build client: %w", err)
	}
	return c, nil
}

// kubeconfig writes a kubeconfig for a user with a client certificate, and returns its path.
func (p *plane) kubeconfig(user string, groups ...string) (string, error) {
	added, err := p.environment.AddUser(envtest.User{Name: user, Groups: groups}, nil)
	if err != nil {
		return "", fmt.Errorf("add user %s: %w", user, err)
	}
	config, err := added.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("create kubeconfig of %s: %w", user, err)
	}
	path := filepath.Join(p.dir, strings.ReplaceAll(user, ":", "-")+".kubeconfig")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return path, nil
}

// serviceAccount writes a kubeconfig for a user with a ServiceAccount's name and groups, and returns its path.
func (p *plane) serviceAccount(namespace, name string) (string, error) {
	return p.kubeconfig("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// nodeName returns the node of a service's pods. The pods specify their node, so no scheduler is
// needed.
func nodeName(service int) string { return fmt.Sprintf("node-%d", service%nodes) }

func (p *plane) createNodes(ctx context.Context) error {
	for i := range nodes {
		name := nodeName(i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if err := p.client.Create(ctx, node); err != nil {
			return fmt.Errorf("create Node %s: %w", name, err)
		}
	}
	return nil
}

// stages are the kwok files that make nodes and pods ready, and remove pods, without delay.
var stages = []string{"node/fast/node-initialize.yaml", "pod/fast/pod-ready.yaml", "pod/fast/pod-delete.yaml"}

func (p *plane) startKwok(o *options) error {
	config, err := p.kubeconfig("kwok", "system:masters")
	if err != nil {
		return err
	}
	kwok, err := filepath.Abs(o.kwok)
	if err != nil {
		return fmt.Errorf("find kwok: %w", err)
	}
	arguments := []string{"--kubeconfig=" + config, "--manage-all-nodes=true", "--node-lease-duration-seconds=0", "--cidr=10.128.0.0/9"}
	for _, stage := range stages {
		arguments = append(arguments, "--config="+filepath.Join(filepath.Dir(kwok), "kustomize", "stage", filepath.FromSlash(stage)))
	}
	return p.run(kwok, nil, arguments...)
}

// run starts a process. A later call to stop stops the process.
func (p *plane) run(binary string, environment []string, arguments ...string) error {
	started, err := startProcess(p.dir, binary, environment, arguments...)
	if err == nil {
		p.started = append(p.started, started)
	}
	return err
}

// startControllerManager starts kube-controller-manager with its default controllers, except the controller
// that expects heartbeats from nodes, and waits until it has created the ServiceAccounts of the services' namespaces.
func (p *plane) startControllerManager(ctx context.Context, o *options) error {
	config, err := p.kubeconfig("system:kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	err = p.run(filepath.Join(o.assets, "kube-controller-manager"), nil,
		"--kubeconfig="+config, "--controllers=*,-node-lifecycle-controller", "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
		"--concurrent-service-endpoint-syncs=20", "--concurrent-endpoint-syncs=20", "--concurrent-gc-syncs=40")
	if err != nil {
		return err
	}
	manager := p.started[len(p.started)-1]
	for i := range o.namespaces {
		if err := p.createNamespace(ctx, namespaceName(i), manager); err != nil {
			return err
		}
	}
	return nil
}

// createNamespace creates a namespace and waits until kube-controller-manager has created the namespace's
// ServiceAccount.
func (p *plane) createNamespace(ctx context.Context, name string, manager *process) error {
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	key := client.ObjectKey{Namespace: name, Name: "default"}
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		if err := manager.failure(); err != nil {
			return false, err
		}
		return p.client.Get(ctx, key, &corev1.ServiceAccount{}) == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for kube-controller-manager: %w; its last lines:\n%s", err, manager.tail())
	}
	return nil
}

// apply creates the objects in the given manifests, which are files or folders.
func (p *plane) apply(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" || entry.Name() == "kustomization.yaml" {
				return err
			}
			return p.applyFile(ctx, file)
		})
		if err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
	}
	return nil
}

func (p *plane) applyFile(ctx context.Context, file string) error {
	in, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	objects, err := apiserver.Objects(bytes.NewReader(in))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, object := range objects {
		if err := p.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%s: create %s %q: %w", file, object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// administrator returns the kubeconfig of a ServiceAccount that has all permissions and belongs to a
// namespace with the same name. It is for products whose manifests contain no roles.
func (p *plane) administrator(ctx context.Context, name string) (kubeconfig string, err error) {
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return "", fmt.Errorf("create namespace %s: %w", name, err)
	}
	if err := p.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: name}},
	}); err != nil {
		return "", fmt.Errorf("grant permissions to %s: %w", name, err)
	}
	return p.serviceAccount(name, name)
}

// stop stops all started processes, in reverse order.
func (p *plane) stop() error {
	for i := range p.started {
		p.started[len(p.started)-1-i].stop()
	}
	if p.gateway != nil {
		p.gateway.stop()
	}
	if p.images != nil {
		p.images.close()
	}
	if p.environment == nil {
		return nil
	}
	if err := p.environment.Stop(); err != nil {
		return fmt.Errorf("stop the control plane: %w", err)
	}
	return nil
}

// failed returns the error of a started process that exited unexpectedly.
func (p *plane) failed() error {
	for _, s := range p.started {
		if err := s.failure(); err != nil {
			return err
		}
	}
	return nil
}

// port returns the port of an address.
func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
