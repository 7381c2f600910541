//go:build live

// Package check tests the cluster on a real machine: it brings one up, runs pods
// on both nodes, takes it down and looks for what is left. It needs root, 4 GiB
// of memory and a few minutes:
//
//	go test -tags live -v -count 1 -timeout 1h ./check -args -state /tmp/check
package check

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llama-operator.dev/testcluster/internal/image"
)

var (
	stateFolder = flag.String("state", "", "the folder for the state of the cluster")
	withMachine = flag.Bool("numa", true, "check numa-node too")
)

const helloImage = "localhost/testcluster-hello:1"

// cluster drives the program under test.
type cluster struct {
	t       *testing.T
	program string
}

func (c cluster) try(arguments ...string) (string, error) {
	command := exec.Command(c.program, arguments...)
	command.Env = append(os.Environ(), "TESTCLUSTER_STATE="+*stateFolder, "KUBECONFIG="+filepath.Join(*stateFolder, "kubeconfig"))
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func (c cluster) must(arguments ...string) string {
	c.t.Helper()
	began := time.Now()
	output, err := c.try(arguments...)
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	if arguments[0] != "kubectl" {
		c.t.Logf("%s (%.1f s)\n%s", strings.Join(arguments, " "), time.Since(began).Seconds(), output)
	}
	return output
}

// apply creates an object from its text.
func (c cluster) apply(text string) {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "object.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.must("kubectl", "apply", "-f", path)
}

func (c cluster) waitReady(pod string) {
	c.t.Helper()
	c.must("kubectl", "wait", "--for=condition=Ready", "pod/"+pod, "--timeout=5m")
}

func TestTheWholeCluster(t *testing.T) {
	if *stateFolder == "" {
		t.Fatal("give a folder for the state of the cluster: -args -state /tmp/check")
	}
	c := cluster{t, build(t)}
	archive := helloArchive(t)
	t.Cleanup(func() { _, _ = c.try("down") })
	for round := range 2 {
		t.Logf("round %d", round+1)
		c.must("up")
		c.must("node-up")
		c.must("load", archive)
		c.checkNode0()
		if *withMachine && round == 0 {
			c.must("numa-node-up")
			c.must("load", archive)
			c.checkNUMANode()
		}
		c.must("down")
		c.must("leftovers")
	}
}

// build builds the program, and hello into the folder of the test.
func build(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("../build", "--quiet").Output()
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return strings.TrimSpace(string(output))
}

func helloArchive(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "hello")
	command := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./hello")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, helloImage, "hello", content); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hello.tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func pod(name, node, resources string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  containers:
    - name: hello
      image: %[3]s
      imagePullPolicy: Never
      readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1, timeoutSeconds: 10}
      resources: {limits: {%[4]s}}
`, name, node, helloImage, resources)
}

func service(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 8080}]}
`, name)
}

// serviceAddress waits until a Service answers this machine, and returns its URL.
func (c cluster) serviceAddress(name string) string {
	c.t.Helper()
	url := "http://" + c.must("kubectl", "get", "service", name, "-o", "jsonpath={.spec.clusterIP}") + "/"
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}
	for range 60 {
		if response, err := client.Get(url); err == nil {
			text, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err == nil && string(text) == "hello from "+name+"\n" {
				return url
			}
		}
		time.Sleep(time.Second)
	}
	c.t.Fatalf("the Service %s at %s does not answer", name, url)
	return ""
}

// answers waits until a Service answers a pod: the kube-proxy of each node learns of it by itself.
func (c cluster) answers(pod, url, text string) {
	c.t.Helper()
	var output string
	for range 60 {
		var err error
		if output, err = c.try("kubectl", "exec", pod, "--", "/hello", "get", url); err == nil && strings.Contains(output, text) {
			return
		}
		time.Sleep(time.Second)
	}
	c.t.Errorf("%s does not answer the pod %s: %s", url, pod, output)
}

func (c cluster) checkNode0() {
	c.t.Helper()
	c.apply(pod("one", "node-0", ""))
	c.apply(service("one"))
	c.waitReady("one")
	url := c.serviceAddress("one")
	if log := c.must("kubectl", "logs", "one"); log != "hello is up" {
		c.t.Errorf("log: %q", log)
	}
	c.answers("one", url, "hello from one")
}

// checkNUMANode puts a Guaranteed pod with a GPU on each NUMA node.
func (c cluster) checkNUMANode() {
	c.t.Helper()
	seen := map[string]bool{}
	for _, name := range []string{"first", "second"} {
		c.apply(pod(name, "numa-node", `cpu: "2", memory: 256Mi, nvidia.com/gpu: 1`))
		c.waitReady(name)
		status := c.must("kubectl", "exec", name, "--", "/hello", "status")
		c.t.Logf("%s: %s", name, strings.ReplaceAll(status, "\n", ", "))
		aligned := map[string][2]string{"GPU=gpu-0": {"Mems_allowed_list=0", "1-2"}, "GPU=gpu-1": {"Mems_allowed_list=1", "4-5"}}
		lines := strings.Split(status, "\n")
		gpu := lines[len(lines)-1]
		want, ok := aligned[gpu]
		if !ok || !strings.Contains(status, want[0]) || !strings.Contains(status, "Cpus_allowed_list="+want[1]) {
			c.t.Errorf("%s is not aligned: %s", name, status)
		}
		seen[gpu] = true
	}
	if len(seen) != 2 {
		c.t.Errorf("both pods have %v", seen)
	}
	c.apply(service("first"))
	url := c.serviceAddress("first")
	c.answers("second", url, "hello from first")
	c.answers("one", url, "hello from first")
	c.apply(pod("third", "numa-node", "nvidia.com/gpu: 1"))
	if output, err := c.try("kubectl", "wait", "--for=condition=Ready", "pod/third", "--timeout=5s"); err == nil {
		c.t.Errorf("a third pod got a GPU: %s", output)
	}
	if _, err := c.try("vm-exec", "false"); err == nil {
		c.t.Error("vm-exec hides the exit code")
	}
}
