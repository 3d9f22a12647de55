/* SPDX-License-Identifier: MIT
 *
 * Workloads, cells and their order (plan.h).
 */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "settings.h"
#include "sys/topology.h"
#include "text.h"

const struct workload workloads[] = {
    {.name = "mlp",
     .title = "MLP 784-1024x4-10, synthetic data: times, bytes and memory of an ordinary model",
     .model = "mlp",
     .data = "synthetic",
     .inputs = 784,
     .width = 1024,
     .depth = 4,
     .classes = 10,
     .arguments = {NULL},
     .variant = "",
     .batch = 128,
     .quick_steps = 20,
     .quick_rounds = 3,
     .steps = 50,
     .rounds = 9,
     .timed = true},
    {.name = "digits",
     .title = "MLP 64-256x2-10 on the UCI digits: real data, test accuracy",
     .model = "mlp",
     .data = "digits",
     .inputs = 64,
     .width = 256,
     .depth = 2,
     .classes = 10,
     .arguments = {"--width", "256", "--depth", "2", "--lr", "0.05", NULL},
     .variant = "width=256;depth=2;lr=0.05",
     .batch = 128,
     .quick_steps = 120,
     .quick_rounds = 1,
     .steps = 240,
     .rounds = 3,
     .evaluated = true},
    {.name = "classes",
     .title = "MLP 784-256-32768, 32,768 classes: the gathered outputs that fill device 0",
     .model = "mlp",
     .data = "synthetic",
     .inputs = 784,
     .width = 256,
     .depth = 1,
     .classes = 32768,
     .arguments = {"--width", "256", "--depth", "1", "--classes", "32768", NULL},
     .variant = "width=256;depth=1;classes=32768",
     .batch = 256,
     .quick_steps = 3,
     .quick_rounds = 1,
     .steps = 10,
     .rounds = 3,
     .modelled_batch = 64},
    {.name = "resnet20",
     .title = "ResNet-20 on synthetic pictures of 32 x 32: many small tensors, convolutions, BatchNorm",
     .model = "resnet20",
     .data = "synthetic",
     .parameters = 272474,
     .arguments = {NULL},
     .variant = "",
     .batch = 128,
     .quick_steps = 6,
     .quick_rounds = 3,
     .steps = 15,
     .rounds = 9,
     .timed = true,
     .batch_norm = true},
    {.name = "gpt-nano",
     .title = "GPT of 4 layers, 128 wide, on synthetic tokens: attention, an embedding tied to the output",
     .model = "gpt-nano",
     .data = "synthetic",
     .parameters = 842496,
     .arguments = {NULL},
     .variant = "",
     .batch = 16,
     .quick_steps = 6,
     .quick_rounds = 3,
     .steps = 15,
     .rounds = 9,
     .timed = true},
    {.name = "gpt2-124m",
     .title = "GPT-2 of 124 million parameters on 8 devices, recorded and not executed: logits that fill device 0",
     .model = "gpt2-124m",
     .data = "synthetic",
     .arguments = {"--shape-only", "--device-memory", "81920", NULL}, /* MiB: an accelerator of 80 GiB */
     .variant = "device_memory=81920;" SHAPE_ONLY,
     .batch = 16,
     .quick_steps = 2,
     .quick_rounds = 1,
     .steps = 2,
     .rounds = 1,
     .shape_gpus = 8,
     .modelled_batch = 4},
    {.name = "resnet50",
     .title = "ResNet-50 on pictures of 224 x 224: modelled only",
     .model = "resnet50",
     .data = "synthetic",
     .arguments = {NULL},
     .variant = "",
     .modelled_batch = 32},
};
const int workload_count = sizeof workloads / sizeof *workloads;

size_t workload_parameter_bytes(const struct workload *w)
{
    if (w->parameters || w->shape_gpus)
        return w->parameters * sizeof(float);
    size_t hidden = w->depth ? (w->inputs + 1) * w->width + (w->depth - 1) * (w->width + 1) * w->width : 0;
    size_t last = ((w->depth ? w->width : w->inputs) + 1) * w->classes;
    return (hidden + last) * sizeof(float);
}

const char *scaling_name(enum scaling scaling)
{
    return scaling == SCALING_STRONG ? "strong" : "weak";
}

struct cell cell_make(const struct workload *workload, enum scaling scaling, const char *strategy, int gpus,
                      bool no_overlap)
{
    struct cell cell = {.workload = workload,
                        .strategy = strategy,
                        .scaling = scaling,
                        .gpus = gpus,
                        .no_overlap = no_overlap,
                        .global_batch = workload->batch * (scaling == SCALING_WEAK ? (size_t)gpus : 1)};
    snprintf(cell.id, sizeof cell.id, "%s-%s-%s-%d%s", workload->name, scaling_name(scaling), strategy, gpus,
             no_overlap ? "-no-overlap" : "");
    snprintf(cell.variant, sizeof cell.variant, "%s%s%s", workload->variant,
             no_overlap && *workload->variant ? ";" : "", no_overlap ? "no_overlap=1" : "");
    return cell;
}

static void add_cell(struct group *group, const struct workload *workload, enum scaling scaling, const char *strategy,
                     int gpus, bool no_overlap)
{
    size_t n = (size_t)group->cell_count;
    group->cells = text_must(realloc(group->cells, (n + 1) * sizeof *group->cells));
    group->cells[n] = cell_make(workload, scaling, strategy, gpus, no_overlap);
    group->cell_count++;
}

static void keep_group(struct plan *plan, const struct group *group)
{
    if (!group->cell_count)
        return;
    plan->groups = text_must(realloc(plan->groups, ((size_t)plan->group_count + 1) * sizeof *plan->groups));
    plan->groups[plan->group_count++] = *group;
}

/* One run each is enough where nothing is executed, and it needs no device of this machine. */
static void add_shape_group(struct plan *plan, const struct settings *settings, const struct workload *workload)
{
    struct group group = {.rounds = 1, .steps = workload->steps};
    if (settings->dp)
        add_cell(&group, workload, SCALING_STRONG, "dp", workload->shape_gpus, false);
    if (settings->ddp)
        add_cell(&group, workload, SCALING_STRONG, "ddp", workload->shape_gpus, false);
    keep_group(plan, &group);
}

static void add_group(struct plan *plan, const struct settings *settings, const struct workload *workload,
                      enum scaling scaling)
{
    struct group group = {.rounds = settings->quick ? workload->quick_rounds : workload->rounds,
                          .steps = settings->quick ? workload->quick_steps : workload->steps};
    if (settings->rounds)
        group.rounds = settings->rounds;
    if (settings->steps)
        group.steps = settings->steps;
    if (settings->single)
        add_cell(&group, workload, scaling, "single", 1, false);
    for (int i = 0; i < settings->gpu_count; i++) {
        int gpus = settings->gpus[i];
        if (settings->dp)
            add_cell(&group, workload, scaling, "dp", gpus, false);
        if (settings->ddp)
            add_cell(&group, workload, scaling, "ddp", gpus, false);
        if (settings->ddp && workload->timed && gpus > 1)
            add_cell(&group, workload, scaling, "ddp", gpus, true);
    }
    keep_group(plan, &group);
}

void plan_make(struct plan *plan, const struct settings *settings)
{
    int largest = settings->gpus[settings->gpu_count - 1];
    *plan = (struct plan){.usable_cores = settings->cores ? settings->cores : topology_usable_cores()};
    plan->cores_per_device = plan->usable_cores / largest > 1 ? plan->usable_cores / largest : 1;
    for (int w = 0; w < workload_count; w++) {
        if (!(settings->workloads >> w & 1U) || !workloads[w].batch)
            continue;
        if (workloads[w].shape_gpus)
            add_shape_group(plan, settings, &workloads[w]);
        else if (settings->strong)
            add_group(plan, settings, &workloads[w], SCALING_STRONG);
        if (settings->weak && !workloads[w].shape_gpus)
            add_group(plan, settings, &workloads[w], SCALING_WEAK);
    }
}

void plan_free(struct plan *plan)
{
    for (int g = 0; g < plan->group_count; g++)
        free(plan->groups[g].cells);
    free(plan->groups);
    *plan = (struct plan){0};
}

int plan_run_count(const struct plan *plan)
{
    int runs = 0;
    for (int g = 0; g < plan->group_count; g++)
        runs += plan->groups[g].rounds * plan->groups[g].cell_count;
    return runs;
}

bool plan_oversubscribed(const struct plan *plan, const struct cell *cell)
{
    return !cell->workload->shape_gpus && cell->gpus * plan->cores_per_device > plan->usable_cores;
}

const struct cell *group_find(const struct group *group, const char *strategy, int gpus, bool no_overlap)
{
    for (int c = 0; c < group->cell_count; c++) {
        const struct cell *cell = &group->cells[c];
        if (text_is(cell->strategy, strategy) && cell->gpus == gpus && cell->no_overlap == no_overlap)
            return cell;
    }
    return NULL;
}

char *plan_text(const struct plan *plan, const struct settings *settings)
{
    struct text text;
    text_open(&text);
    fprintf(text.out, "dpbench %s\ndevice %s\ncores %d\ncores_per_device %d\n", PROJECT_VERSION, settings->device,
            plan->usable_cores, plan->cores_per_device);
    for (int g = 0; g < plan->group_count; g++) {
        const struct group *group = &plan->groups[g];
        fprintf(text.out, "group rounds %d steps %d\n", group->rounds, group->steps);
        for (int c = 0; c < group->cell_count; c++)
            fprintf(text.out, "cell %s global_batch %zu\n", group->cells[c].id, group->cells[c].global_batch);
    }
    text_close(&text);
    return text.data;
}
