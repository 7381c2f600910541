/* The part of NVML's C API that the runtime calls, answering from the environment:
 * FAKE_NVML_INIT      return code of nvmlInit_v2, default 0
 * FAKE_NVML_COUNT     return code of nvmlDeviceGetCount_v2, default 0
 * FAKE_NVML_DEVICES   "BUS_ID=AFFINITY BUS_ID=AFFINITY ...": AFFINITY is the hexadecimal
 *                     node mask, or - for "not supported"; BUS_ID ! fails in GetPciInfo. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOT_SUPPORTED 3
#define GPU_IS_LOST 15

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    char busId[32];
    char affinity[32];
} device_t;

static device_t devices[16];
static unsigned int count;

static int code(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

int nvmlInit_v2(void) {
    const char *text = getenv("FAKE_NVML_DEVICES");
    int used = 0;
    for (count = 0; text; text += used, count++)
        if (sscanf(text, " %31[^=]=%31s%n", devices[count].busId, devices[count].affinity, &used) != 2)
            break;
    return code("FAKE_NVML_INIT");
}

int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned int *result) {
    *result = count;
    return code("FAKE_NVML_COUNT");
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **device) {
    *device = &devices[index];
    return 0;
}

int nvmlDeviceGetPciInfo_v3(device_t *device, nvmlPciInfo_t *pci) {
    if (device->busId[0] == '!')
        return GPU_IS_LOST;
    memset(pci, 0x7f, sizeof *pci);
    strcpy(pci->busIdLegacy, "legacy");
    strcpy(pci->busId, device->busId);
    return 0;
}

int nvmlDeviceGetMemoryAffinity(device_t *device, unsigned int size, unsigned long *set,
                                unsigned int scope) {
    if (device->affinity[0] == '-' || scope != 0 || size < 1)
        return NOT_SUPPORTED;
    memset(set, 0, size * sizeof *set);
    set[0] = strtoul(device->affinity, NULL, 16);
    return 0;
}
