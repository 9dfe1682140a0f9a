package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"

	"github.com/heighliner/heighliner/hack/localcluster/image"
)

// cluster is the cluster on which the commands operate, with its settings.
type cluster struct {
	config Config
	say    func(format string, arguments ...any)
}

// lock prevents two commands from changing a cluster concurrently.
func (c *cluster) lock(ctx context.Context) (func(), error) {
	return lockFile(ctx, c.config.RunDir+".lock", func() { c.say("waiting for another command on this cluster") })
}

// up starts the cluster or makes it healthy again, whatever its state.
func (c *cluster) up(ctx context.Context, source string) error {
	if err := requireHost(); err != nil {
		return err
	}
	builder, err := newBuilder(source, c.say)
	if err != nil {
		return err
	}
	keys, err := builder.ensure(ctx, "kube", "traefik", "pause")
	if err != nil {
		return err
	}
	if err := installPackages(ctx, tools, c.say); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()

	c.config.Binaries = keys
	c.config.Owner = Owner{Checkout: builder.checkout(), Since: time.Now().Truncate(time.Second)}
	if c.config.Fingerprint, err = c.config.fingerprint(); err != nil {
		return err
	}
	found, err := c.observe(ctx)
	if err != nil {
		return err
	}
	decision := decide(found, c.config)
	if decision.From != "" {
		c.say("taking over the running cluster from %s", decision.From)
	}
	switch decision.Action {
	case ActionKeep, ActionRepair:
		err := c.keep(ctx, *found.Config, decision)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		c.say("starting again: %v", err)
	case ActionRebuild:
		c.say("starting again: %s", decision.Reason)
	case ActionStart:
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	return c.start(ctx, builder)
}

// observe returns the current state of the cluster.
func (c *cluster) observe(ctx context.Context) (Observation, error) {
	var o Observation
	var err error
	o.RunDir = exists(c.config.RunDir)
	if o.Config, err = loadConfig(c.config.RunDir); err != nil {
		c.say("%v", err) // A broken record is treated as remains.
		o.Config = nil
	}
	state, err := newControl(&c.config).state(ctx)
	o.Answers, o.State = err == nil, state
	processes, err := clusterProcesses(c.config.Name, c.config.RunDir)
	if err != nil {
		return o, err
	}
	mounts, err := mountsBelow(c.config.RunDir)
	if err != nil {
		return o, err
	}
	o.Processes, o.Mounts = len(processes), len(mounts)
	return o, nil
}

// keep makes a cluster with a running supervisor healthy again, and changes the cluster's owner if another
// checkout takes the cluster over.
func (c *cluster) keep(ctx context.Context, previous Config, decision Decision) error {
	if decision.From == "" {
		c.config.Owner = previous.Owner
	}
	if err := c.config.save(); err != nil {
		return err
	}
	control := newControl(&c.config)
	if decision.Gateway && !slices.Contains(decision.Parts, "traefik") {
		c.say("restarting the gateway with a throttle of %s", c.config.GatewayThrottle)
		if err := control.stop(ctx, "traefik"); err != nil {
			return err
		}
		decision.Parts = append(decision.Parts, "traefik")
	}
	if len(decision.Parts) > 0 {
		c.say("starting again: %s", strings.Join(decision.Parts, ", "))
	}
	announced := func(p Part) bool { return slices.Contains(decision.Parts, p.Name) }
	if err := c.startParts(ctx, announced, nil); err != nil {
		return err
	}
	api, err := newAPI(&c.config)
	if err != nil {
		return err
	}
	if err := api.awaitHealthy(ctx, 90*time.Second); err != nil {
		return err
	}
	return c.config.awaitRoutes(ctx)
}

// start creates a cluster.
func (c *cluster) start(ctx context.Context, builder *builder) error {
	if err := c.checkPorts(); err != nil {
		return err
	}
	if err := c.prepare(builder); err != nil {
		return err
	}
	if err := c.startSupervisor(ctx); err != nil {
		return err
	}
	crds, err := builder.gatewayCRDs(ctx)
	if err != nil {
		return err
	}
	after := map[int]func(context.Context) error{
		stageStores: c.importPause,
		stageAPI:    func(ctx context.Context) error { return c.bootstrap(ctx, crds) },
	}
	if err := c.startParts(ctx, func(Part) bool { return true }, after); err != nil {
		return err
	}
	c.say("waiting for node and gateway")
	api, err := newAPI(&c.config)
	if err != nil {
		return err
	}
	return api.awaitHealthy(ctx, 2*time.Minute)
}

// checkPorts returns an error if a port is in use. It is called before anything is started.
func (c *cluster) checkPorts() error {
	for _, f := range c.config.forwards() {
		if err := portFree(f.host); err != nil {
			return fmt.Errorf("check port for the %s: %w: choose another port with --%s", f.what, err, f.flag)
		}
	}
	return nil
}

// prepare writes programs and keys into the run folder, and creates the network namespace.
func (c *cluster) prepare(builder *builder) error {
	config := &c.config
	for _, folder := range []string{"bin", "logs", "audit", "tmp", "kubelet-plugins"} {
		if err := os.MkdirAll(config.path(folder), 0o755); err != nil {
			return fmt.Errorf("create run folder: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	programs := map[string]string{"localcluster": self}
	for _, bin := range binaries {
		programs[bin.name] = builder.binaryPath(bin, config.Binaries[bin.name])
	}
	for name, path := range programs {
		if err := linkOrCopy(path, config.path("bin", name)); err != nil {
			return err
		}
	}
	for _, name := range kubeComponents {
		if err := os.Symlink("kube", config.path("bin", name)); err != nil {
			return fmt.Errorf("link program: %w", err)
		}
	}
	if err := config.writePKI(time.Now()); err != nil {
		return err
	}
	if err := createNamespace(config.path("netns")); err != nil {
		return err
	}
	if err := configureNamespace(config.path("netns")); err != nil {
		return err
	}
	return config.save()
}

// startSupervisor starts the parent of all parts, and waits for its socket.
func (c *cluster) startSupervisor(ctx context.Context) error {
	logPath := c.config.path("logs", "supervisor.log")
	output, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	defer output.Close()
	command := exec.Command(c.config.path("bin", "localcluster"), "supervise", "--name", c.config.Name, "--run-dir", c.config.RunDir)
	command.Dir = "/"
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = ownMounts()
	command.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + c.config.RunDir,
		"TMPDIR=" + c.config.path("tmp"),
		mark + "=" + c.config.RunDir,
	}
	if err := keepFiles(); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start supervisor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	control := newControl(&c.config)
	for {
		if _, err := control.state(ctx); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("start supervisor: %w: %s", err, tail(logPath, 3))
		case <-ctx.Done():
			return fmt.Errorf("start supervisor: %w: %s", ctx.Err(), tail(logPath, 3))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// startParts starts the parts that are not running, stage by stage, and waits until all parts of a stage are
// ready. It then calls the stage's hook. It reports only the parts for which announced returns true.
func (c *cluster) startParts(ctx context.Context, announced func(Part) bool, after map[int]func(context.Context) error) error {
	control := newControl(&c.config)
	for stage := range stageCount {
		started := time.Now()
		var names []string
		group, groupContext := errgroup.WithContext(ctx)
		for _, p := range c.config.parts() {
			if p.Stage != stage {
				continue
			}
			if announced(p) {
				names = append(names, p.Name)
			}
			group.Go(func() error { return control.start(groupContext, p.Name) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if len(names) > 0 {
			c.say("ready after %s: %s", time.Since(started).Round(100*time.Millisecond), strings.Join(names, ", "))
		}
		if hook := after[stage]; hook != nil {
			if err := hook(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// importPause imports the pause container's image into the container runtime.
func (c *cluster) importPause(ctx context.Context) error {
	spec := image.Spec{Binary: c.config.path("bin", "pause")}
	img, err := image.Build(spec)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(pauseImage)
	if err != nil {
		return fmt.Errorf("name pause image: %w", err)
	}
	archive := c.config.path("pause.tar")
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		return fmt.Errorf("write pause image: %w", err)
	}
	command := exec.CommandContext(ctx, "ctr", "--address", c.config.path("containerd.sock"), "--namespace", "k8s.io", "images", "import", archive)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("import pause image: %w: %s", err, lastLines(string(output), 3))
	}
	return nil
}

// bootstrap installs the Gateway API and the objects in bootstrap.yaml.
func (c *cluster) bootstrap(ctx context.Context, crds []string) error {
	arguments := []string{"apply", "--server-side"}
	for _, file := range crds {
		arguments = append(arguments, "--filename", file)
	}
	if err := c.config.kubectl(ctx, "", arguments...); err != nil {
		return err
	}
	if err := c.config.kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all"); err != nil {
		return err
	}
	certificate, err := os.ReadFile(c.config.path("pki", "gateway.crt"))
	if err != nil {
		return fmt.Errorf("read certificate of the gateway: %w", err)
	}
	key, err := os.ReadFile(c.config.path("pki", "gateway.key"))
	if err != nil {
		return fmt.Errorf("read key of the gateway: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	manifest := strings.NewReplacer("CERTIFICATE", encode(certificate), "KEY", encode(key)).Replace(bootstrapManifest)
	return c.config.kubectl(ctx, manifest, "apply", "--server-side", "--filename", "-")
}

// clear kills all of the cluster's processes and removes its remains: mounts, network namespaces with their
// routes and firewall rules, cgroups, and files.
func (c *cluster) clear(ctx context.Context) error {
	config := &c.config
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		pids, err := clusterProcesses(config.Name, config.RunDir)
		if err != nil {
			return err
		}
		if len(pids) == 0 {
			break
		}
		for _, pid := range pids {
			if process, err := os.FindProcess(pid); err == nil {
				_ = process.Kill() // The process has exited, or the next attempt finds it.
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill processes: %v are still running: %w", pids, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := unmountBelow(config.RunDir); err != nil {
		return err
	}
	if err := removeCgroup(config.Name); err != nil {
		return err
	}
	if err := os.RemoveAll(config.RunDir); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	return nil
}

// down stops the cluster. It is not an error if there is no cluster.
func (c *cluster) down(ctx context.Context) error {
	if err := requireHost(); err != nil {
		return err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if config, err := loadConfig(c.config.RunDir); err == nil && config != nil {
		c.say("stopping the cluster of %s", config.Owner.Checkout)
	}
	if err := c.clear(ctx); err != nil {
		return err
	}
	if err := os.Remove(c.config.RunDir + ".lock"); err != nil {
		return fmt.Errorf("remove lock: %w", err)
	}
	return nil
}

// running returns the record of a cluster whose supervisor is responding.
func (c *cluster) running(ctx context.Context) (*Config, *control, State, error) {
	config, err := loadConfig(c.config.RunDir)
	if err != nil {
		return nil, nil, State{}, err
	}
	if config == nil {
		return nil, nil, State{}, errors.New("find cluster: no cluster in " + c.config.RunDir + ": run localcluster up")
	}
	control := newControl(config)
	state, err := control.state(ctx)
	if err != nil {
		return config, control, State{}, fmt.Errorf("find cluster: %w: run localcluster up", err)
	}
	return config, control, state, nil
}

// kill kills a part, or the supervisor, with SIGKILL, and waits until the process has exited.
func (c *cluster) kill(ctx context.Context, part string) error {
	_, control, state, err := c.running(ctx)
	if err != nil {
		return err
	}
	pid := state.Supervisor
	if part != "supervisor" {
		p, known := state.part(part)
		if !known {
			_, err := c.config.part(part)
			return err
		}
		if !p.Running {
			return fmt.Errorf("kill %s: it is not running: %s", part, p.Exit)
		}
		pid = p.PID
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("kill %s: %w", part, err)
	}
	if err := process.Kill(); err != nil {
		return fmt.Errorf("kill %s, pid %d: %w", part, pid, err)
	}
	for {
		state, err := control.state(ctx)
		if part == "supervisor" && err != nil {
			break
		}
		if p, _ := state.part(part); err == nil && part != "supervisor" && !p.Running {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kill %s: %w", part, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	c.say("killed %s, pid %d", part, pid)
	return nil
}

// restart stops a part and starts it again. If change is not nil, restart calls it between these two steps to
// change the cluster's record.
func (c *cluster) restart(ctx context.Context, part string, change func(*Config)) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	config, control, _, err := c.running(ctx)
	if err != nil {
		return err
	}
	if _, err := config.part(part); err != nil {
		return err
	}
	started := time.Now()
	if err := control.stop(ctx, part); err != nil {
		return err
	}
	if change != nil {
		change(config)
		if err := config.save(); err != nil {
			return err
		}
	}
	if err := control.start(ctx, part); err != nil {
		return err
	}
	if part == "traefik" {
		if err := config.awaitRoutes(ctx); err != nil {
			return err
		}
	}
	c.say("%s is ready again after %s", part, time.Since(started).Round(10*time.Millisecond))
	return nil
}

// linkOrCopy creates a hard link, or a copy if the file system does not support links. Either way, the
// cluster does not depend on the original file.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy program: %w", err)
	}
	if err := writeFile(to, content, 0o755); err != nil {
		return fmt.Errorf("copy program %s: %w", filepath.Base(from), err)
	}
	return nil
}
