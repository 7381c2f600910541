package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts are the programs in this binary. When one runs, os.Args is what it
// would be if the part were a binary of its own. It returns the exit code.
func parts() map[string]func(arguments []string) int {
	cobraPart := func(build func() *cobra.Command) func([]string) int {
		return func([]string) int { return cli.Run(build()) }
	}
	return map[string]func([]string) int{
		"etcd":                    func([]string) int { etcdmain.Main(os.Args); return 0 },
		"kube-apiserver":          cobraPart(apiserver.NewAPIServerCommand),
		"kube-controller-manager": cobraPart(controllermanager.NewControllerManagerCommand),
		"kube-scheduler":          cobraPart(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
		"kube-proxy":              cobraPart(proxy.NewProxyCommand),
		// The kubelet installs the signal handler itself; a second one panics.
		"kubelet": cobraPart(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
		"kubectl": func([]string) int {
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				kubectlutil.CheckErr(err) // prints it the way kubectl does, and exits
			}
			return 0
		},
		"helm": runHelm,
	}
}

func runHelm(arguments []string) int {
	helmkube.ManagedFieldsManager = "helm"
	command, err := helm.NewRootCmd(os.Stdout, arguments, helm.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		return 1
	}
	if err := command.Execute(); err != nil {
		if exit, ok := err.(helm.CommandError); ok {
			return exit.ExitCode
		}
		return 1
	}
	return 0
}
