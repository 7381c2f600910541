package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const fakeGPUSocket = "fake-gpus.sock"

// fakeGPUs is a device plugin (KEP-3573) that offers nvidia.com/gpu devices
// with a NUMA node each as the topology hint. Nothing computes.
type fakeGPUs struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

// newFakeGPUs offers one device, gpu-INDEX, on each NUMA node of the list.
func newFakeGPUs(nodes []string) (*fakeGPUs, error) {
	plugin := &fakeGPUs{}
	for index, text := range nodes {
		node, err := strconv.ParseInt(text, 10, 64)
		if err != nil || node < 0 {
			return nil, fmt.Errorf("%q is not the number of a NUMA node", text)
		}
		plugin.devices = append(plugin.devices, &api.Device{ID: fmt.Sprintf("gpu-%d", index), Health: api.Healthy,
			Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: node}}}})
	}
	return plugin, nil
}

func (p *fakeGPUs) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices once: none ever changes.
func (p *fakeGPUs) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells each container its devices the way NVIDIA's plugin does.
func (p *fakeGPUs) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses,
			&api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}})
	}
	return response, nil
}

// runFakeGPUs serves the plugin, and registers it again whenever a new kubelet
// has made a new socket and removed ours.
func runFakeGPUs(nodes []string) int {
	plugin, err := newFakeGPUs(nodes)
	if err != nil || len(nodes) == 0 {
		fmt.Fprintf(os.Stderr, "usage: testcluster fake-gpus NUMA-NODE... (one GPU on each): %v\n", err)
		return 2
	}
	var server *grpc.Server
	registered := "" // identity of the kubelet's socket that knows us
	for ; ; time.Sleep(500 * time.Millisecond) {
		now := socketIdentity(api.KubeletSocket)
		if now == "" || (now == registered && socketIdentity(filepath.Join(api.DevicePluginPath, fakeGPUSocket)) != "") {
			continue
		}
		if server != nil {
			server.Stop()
		}
		if server, err = plugin.serve(); err == nil {
			err = register()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		registered = now
		fmt.Printf("registered %d devices\n", len(plugin.devices))
	}
}

func socketIdentity(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return info.ModTime().String()
}

func (p *fakeGPUs) serve() (*grpc.Server, error) {
	path := filepath.Join(api.DevicePluginPath, fakeGPUSocket)
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	return server, nil
}

func register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: fakeGPUSocket, ResourceName: "nvidia.com/gpu"})
	return err
}
