// Package fakegpus is a device plugin (KEP-3573) that offers nvidia.com/gpu
// devices with a NUMA node each as the topology hint. Nothing computes.
package fakegpus

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource   = "nvidia.com/gpu"
	socketName = "fake-gpus.sock"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

// newPlugin offers the device gpu-INDEX on each NUMA node of the list.
func newPlugin(nodes []int64) *plugin {
	p := &plugin{}
	for index, node := range nodes {
		p.devices = append(p.devices, &api.Device{ID: fmt.Sprintf("gpu-%d", index), Health: api.Healthy,
			Topology: &api.TopologyInfo{Nodes: []*api.NUMANode{{ID: node}}}})
	}
	return p
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices once: none ever changes.
func (p *plugin) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate tells each container its devices the way NVIDIA's plugin does.
func (p *plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		answer := &api.ContainerAllocateResponse{Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(container.DevicesIds, ",")}}
		addNVML(answer, nvmlLibrary, "/sys/bus/pci/devices", p.nodesOf(container.DevicesIds))
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

// nodesOf are the NUMA nodes of devices, as sysfs writes them.
func (p *plugin) nodesOf(ids []string) []string {
	var nodes []string
	for _, id := range ids {
		for _, device := range p.devices {
			if device.ID == id {
				nodes = append(nodes, fmt.Sprint(device.Topology.Nodes[0].ID))
			}
		}
	}
	return nodes
}

// Run offers one GPU on each NUMA node of the list, for ever. It registers again
// whenever a new kubelet has made a new socket, which removes the plugin's.
func Run(nodes []int64, log io.Writer) {
	p := newPlugin(nodes)
	var server *grpc.Server
	registered := "" // the kubelet's socket that knows us
	for ; ; time.Sleep(500 * time.Millisecond) {
		kubelet := socketIdentity(api.KubeletSocket)
		if kubelet == "" || (kubelet == registered && socketIdentity(socketPath()) != "") {
			continue
		}
		if server != nil {
			server.Stop()
		}
		var err error
		if server, err = p.serve(); err == nil {
			err = register()
		}
		if err != nil {
			fmt.Fprintln(log, err)
			continue
		}
		registered = kubelet
		fmt.Fprintf(log, "registered %d devices\n", len(p.devices))
	}
}

func socketPath() string { return filepath.Join(api.DevicePluginPath, socketName) }

// socketIdentity differs between a socket and one made later in its place.
func socketIdentity(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return info.ModTime().String()
}

func (p *plugin) serve() (*grpc.Server, error) {
	os.Remove(socketPath())
	listener, err := net.Listen("unix", socketPath())
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
		Version: api.Version, Endpoint: socketName, ResourceName: resource})
	return err
}
