/* SPDX-License-Identifier: MIT
 *
 * Residual networks: the passes. Each unit keeps two tensors for the backward pass, z = convolution's output and y =
 * what the next one reads (behind BatchNorm and ReLU); a shortcut unit keeps z alone.
 *
 * The backward pass needs only two buffers more, a and b, since gradients take the place of what nobody needs any more:
 * dz that of z, the gradient of a unit's y that of y once the filter's gradient behind it has been taken. The gradient
 * of a block's input is the sum of its two paths; they are left in a and b and added where they are read next.
 */
#include "nn/resnet.h"

#include <stdlib.h>

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "nn/model_types.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct unit {
    struct convolution convolution;
    struct batch_norm norm;
    void *z, *y; /* [batch_max][out_height][out_height][out]; y NULL: a shortcut */
};

struct resnet {
    struct resnet_network network;
    struct unit units[RESNET_UNITS_MAX];
    struct convolution_room convolution_room;
    struct batch_norm_room norm_room;
    void *a, *b;                 /* gradients: the largest input or output of a block */
    void *input;                 /* the input in the model's type, if that is not fp32 */
    void *pooled;                /* network.pooled: the first block's input */
    uint8_t *places;             /* and where its maxima were */
    void *features, *d_features; /* [batch_max][features] */
};

static size_t rows_of(const struct convolution_shape *shape, size_t batch)
{
    return batch * shape->out_height * shape->out_height;
}

static size_t pooled_height(const struct resnet_network *network)
{
    return (network->units[0].shape.out_height + 1) / 2;
}

static struct unit *last_unit(struct resnet *net, int block)
{
    return &net->units[net->network.blocks[block].first + net->network.blocks[block].count - 1];
}

/* What block `block` reads; of the number of blocks: the last one's output. */
static void *block_input(struct resnet *net, int block)
{
    return block ? last_unit(net, block - 1)->y : net->network.pooled ? net->pooled : net->units[0].y;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static bool is_shortcut(const struct resnet_network *network, int unit)
{
    for (int i = 0; i < network->block_count; i++)
        if (network->blocks[i].shortcut == unit)
            return true;
    return false;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static int open_unit(struct resnet *net, const struct replica *replica, int index)
{
    const struct resnet_unit *description = &net->network.units[index];
    struct unit *unit = &net->units[index];
    size_t out = description->shape.out;
    size_t bytes = rows_of(&description->shape, replica->batch_max) * out * element_size(replica_type(replica));

    unit->convolution.shape = description->shape;
    unit->norm = (struct batch_norm){out, description->weight + 1, description->running, NULL};
    TRY(convolution_open(&unit->convolution, &net->convolution_room, replica));
    TRY(gpu_malloc((void **)&unit->norm.saved, (2 * out + 1) * sizeof(float), MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&unit->z, bytes, MEMORY_ACTIVATIONS));
    return is_shortcut(&net->network, index) ? EXIT_OK : gpu_malloc(&unit->y, bytes, MEMORY_ACTIVATIONS);
}

/* Floats of partials, and channels, that the largest BatchNorm needs. */
static int open_norm_room(struct resnet *net, size_t batch)
{
    size_t partials = 0, channels = 0;

    for (int i = 0; i < net->network.unit_count; i++) {
        const struct convolution_shape *shape = &net->network.units[i].shape;
        partials = larger(partials, batch_norm_partials(rows_of(shape, batch), shape->out));
        channels = larger(channels, shape->out);
    }
    TRY(gpu_malloc((void **)&net->norm_room.partials, partials * sizeof(float), MEMORY_ACTIVATIONS));
    TRY(gpu_malloc((void **)&net->norm_room.statistics, (2 * channels + 1) * sizeof(float), MEMORY_ACTIVATIONS));
    return gpu_malloc((void **)&net->norm_room.sums, 2 * channels * sizeof(float), MEMORY_ACTIVATIONS);
}

static int open_gradients(struct resnet *net, const struct replica *replica)
{
    const struct resnet_network *network = &net->network;
    size_t batch = replica->batch_max, element = element_size(replica_type(replica)), most = 0;
    const struct convolution_shape *stem = &network->units[0].shape;
    size_t stem_height = network->pooled ? pooled_height(network) : stem->out_height;

    most = stem_height * stem_height * stem->out;
    for (int i = 0; i < network->block_count; i++) {
        const struct convolution_shape *shape = &last_unit(net, i)->convolution.shape;
        most = larger(most, shape->out_height * shape->out_height * shape->out);
    }
    TRY(gpu_malloc(&net->a, batch * most * element, MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&net->b, batch * most * element, MEMORY_ACTIVATIONS));
    if (network->pooled) {
        size_t pooled = batch * stem_height * stem_height * stem->out;
        TRY(gpu_malloc(&net->pooled, pooled * element, MEMORY_ACTIVATIONS));
        TRY(gpu_malloc((void **)&net->places, pooled, MEMORY_ACTIVATIONS));
    }
    TRY(gpu_malloc(&net->input, input_cast_bytes(replica), MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&net->features, batch * network->features * element, MEMORY_ACTIVATIONS));
    return gpu_malloc(&net->d_features, batch * network->features * element, MEMORY_ACTIVATIONS);
}

static int resnet_open(struct replica *replica)
{
    struct resnet *net = calloc(1, sizeof *net);
    size_t outputs = replica->batch_max * replica->model->output_bytes;

    if (!net) {
        log_error("%s: no memory", replica->model->type->name);
        return EXIT_RESOURCE;
    }
    replica->state = net;
    resnet_network(&net->network, replica->model);
    TRY(convolution_room_open(&net->convolution_room, replica));
    for (int i = 0; i < net->network.unit_count; i++)
        TRY(open_unit(net, replica, i));
    TRY(gpu_malloc(&net->convolution_room.workspace, net->convolution_room.workspace_bytes, MEMORY_ACTIVATIONS));
    TRY(open_norm_room(net, replica->batch_max));
    TRY(open_gradients(net, replica));
    TRY(gpu_malloc(&replica->logits, outputs, MEMORY_OUTPUTS));
    return gpu_malloc(&replica->d_logits, outputs, MEMORY_OUTPUTS);
}

static void resnet_close(struct replica *replica)
{
    struct resnet *net = replica->state;

    if (!net)
        return;
    gpu_free(replica->d_logits);
    gpu_free(replica->logits);
    for (int i = 0; i < net->network.unit_count; i++) {
        convolution_close(&net->units[i].convolution);
        gpu_free(net->units[i].norm.saved);
        gpu_free(net->units[i].z);
        gpu_free(net->units[i].y);
    }
    void *const others[] = {net->a,
                            net->b,
                            net->input,
                            net->pooled,
                            net->places,
                            net->features,
                            net->d_features,
                            net->norm_room.partials,
                            net->norm_room.statistics,
                            net->norm_room.sums,
                            net->convolution_room.workspace};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        gpu_free(others[i]);
    convolution_room_close(&net->convolution_room);
    free(net);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* One forward pass on its way. */
struct forward {
    struct replica *replica;
    struct resnet *net;
    size_t batch;
    bool training;
};

/* y = BatchNorm(convolution(x)) [+ residual, ReLU] */
static int unit_forward(const struct forward *pass, struct unit *unit, void *y, const void *x, const void *residual,
                        bool relu)
{
    const struct resnet *net = pass->net;

    TRY(convolution_forward(&unit->convolution, &net->convolution_room, pass->replica, unit->z, x, pass->batch));
    return batch_norm_forward(pass->replica, &net->norm_room, &unit->norm, y, unit->z, residual, relu,
                              rows_of(&unit->convolution.shape, pass->batch), pass->training);
}

/* The shortcut's output stands in a, which only the backward pass needs else. */
static int block_forward(const struct forward *pass, int index)
{
    struct resnet *net = pass->net;
    const struct resnet_block *block = &net->network.blocks[index];
    const void *input = block_input(net, index), *x = input, *residual = input;

    if (block->shortcut >= 0) {
        TRY(unit_forward(pass, &net->units[block->shortcut], net->a, input, NULL, false));
        residual = net->a;
    }
    for (int i = 0; i < block->count; i++) {
        struct unit *unit = &net->units[block->first + i];
        TRY(unit_forward(pass, unit, unit->y, x, i == block->count - 1 ? residual : NULL, true));
        x = unit->y;
    }
    return EXIT_OK;
}

static int classify(const struct forward *pass)
{
    struct replica *replica = pass->replica;
    struct resnet *net = pass->net;
    const struct resnet_network *network = &net->network;
    enum element_type type = replica_type(replica);
    size_t height = last_unit(net, network->block_count - 1)->convolution.shape.out_height;

    if (pass->batch == 0)
        return EXIT_OK;
    GPU_TRY(kernel_average_pool(type, net->features, block_input(net, network->block_count), pass->batch,
                                height * height, network->features, replica->compute));
    TRY(linear_forward(replica, replica->logits, net->features, pass->batch, network->classifier));
    GPU_TRY(kernel_bias(type, replica->logits, replica_parameter(replica, network->classifier + 1), pass->batch,
                        replica->model->classes, replica->compute));
    return EXIT_OK;
}

static int resnet_forward(struct replica *replica, size_t batch, bool training)
{
    struct resnet *net = replica->state;
    const struct forward pass = {replica, net, batch, training};
    const struct convolution_shape *stem = &net->network.units[0].shape;
    const void *x = replica->input;

    if (batch)
        TRY(input_cast(replica, net->input, batch, &x));
    TRY(unit_forward(&pass, &net->units[0], net->units[0].y, x, NULL, true));
    if (net->pooled && batch)
        GPU_TRY(kernel_max_pool(replica_type(replica), net->pooled, net->places, net->units[0].y, batch,
                                stem->out_height, stem->out_height, stem->out, replica->compute));
    for (int i = 0; i < net->network.block_count; i++)
        TRY(block_forward(&pass, i));
    return classify(&pass);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* dz in place of z, and the gradients of the BatchNorm and the filter; then the gradient of x in dx (NULL: nobody needs
 * it). dx may be x. */
static int unit_backward(const struct backward *pass, struct unit *unit, const struct batch_norm_gradient *gradient,
                         const void *x, void *dx)
{
    struct resnet *net = pass->replica->state;
    struct convolution *convolution = &unit->convolution;

    TRY(batch_norm_backward(pass, &net->norm_room, &unit->norm, unit->z, unit->z, gradient,
                            rows_of(&convolution->shape, pass->batch)));
    TRY(convolution_backward_filter(convolution, &net->convolution_room, pass, unit->z, x));
    return dx ? convolution_backward_data(convolution, &net->convolution_room, pass, dx, unit->z) : EXIT_OK;
}

/* The units before a block's last one, whose gradient stands in their y; the block's input gradient goes to dx. */
static int inner_backward(const struct backward *pass, const struct resnet_block *block, const void *input, void *dx)
{
    struct resnet *net = pass->replica->state;

    for (int i = block->count - 2; i >= 0; i--) {
        struct unit *unit = &net->units[block->first + i];
        const struct batch_norm_gradient gradient = {.gate = GATE_INPUT, .g = unit->y};
        void *before = i ? net->units[block->first + i - 1].y : NULL;
        TRY(unit_backward(pass, unit, &gradient, i ? before : input, i ? before : dx));
    }
    return EXIT_OK;
}

/* In a and b (the last block: a alone) the gradient of the block's output, in a and b that of its input. Whoever goes
 * first, last unit or shortcut, turns a into the gradient behind the ReLU, which both need. */
static int block_backward(const struct backward *pass, int index)
{
    struct resnet *net = pass->replica->state;
    const struct resnet_network *network = &net->network;
    const struct resnet_block *block = &network->blocks[index];
    struct unit *last = last_unit(net, index), *before = last - 1;
    struct unit *shortcut = block->shortcut >= 0 ? &net->units[block->shortcut] : NULL;
    const void *other = index == network->block_count - 1 ? NULL : net->b, *input = block_input(net, index);
    const struct batch_norm_gradient gated = {GATE_OUTPUT, net->a, other, last->y}, plain = {GATE_NONE, net->a};

    if (shortcut && network->shortcut_first) {
        TRY(unit_backward(pass, shortcut, &gated, input, net->b));
        TRY(unit_backward(pass, last, &plain, before->y, before->y));
        return inner_backward(pass, block, input, net->a);
    }
    TRY(unit_backward(pass, last, &gated, before->y, before->y));
    TRY(inner_backward(pass, block, input, net->b));
    return shortcut ? unit_backward(pass, shortcut, &plain, input, net->a) : EXIT_OK;
}

/* The stem: its gradient is in a and b, behind the pooling if there is one. */
static int stem_backward(const struct backward *pass, const void *x)
{
    struct resnet *net = pass->replica->state;
    struct unit *stem = &net->units[0];
    const struct convolution_shape *shape = &stem->convolution.shape;
    enum element_type type = replica_type(pass->replica);
    cudaStream_t compute = pass->replica->compute;
    size_t pixels = pooled_height(&net->network) * pooled_height(&net->network);
    const struct batch_norm_gradient gated = {GATE_OUTPUT, net->a, net->b, stem->y}, pooled = {GATE_INPUT, stem->y};

    if (!net->pooled)
        return unit_backward(pass, stem, &gated, x, NULL);
    if (pass->batch) {
        GPU_TRY(kernel_add(type, net->a, net->b, pass->batch * pixels * shape->out, compute));
        GPU_TRY(kernel_max_pool_backward(type, stem->y, net->a, net->places, pass->batch, shape->out_height,
                                         shape->out_height, shape->out, compute));
    }
    return unit_backward(pass, stem, &pooled, x, NULL);
}

static int resnet_backward(struct replica *replica, const void *d_logits, size_t batch, bool accumulate,
                           gradient_ready *ready, void *context)
{
    const struct backward pass = {replica, batch, accumulate, ready, context};
    struct resnet *net = replica->state;
    const struct resnet_network *network = &net->network;
    size_t height = last_unit(net, network->block_count - 1)->convolution.shape.out_height;

    TRY(backward_begin(&pass));
    TRY(linear_backward(&pass, net->d_features, d_logits, net->features, batch, network->classifier, true));
    if (batch)
        GPU_TRY(kernel_average_pool_backward(replica_type(replica), net->a, net->d_features, batch, height * height,
                                             network->features, replica->compute));
    for (int i = network->block_count - 1; i >= 0; i--)
        TRY(block_backward(&pass, i));
    return stem_backward(&pass, net->input ? net->input : replica->input);
}

const struct model_type model_resnet20 = {
    .name = "resnet20",
    .describe = resnet_describe,
    .open = resnet_open,
    .close = resnet_close,
    .forward = resnet_forward,
    .backward = resnet_backward,
};

const struct model_type model_resnet50 = {
    .name = "resnet50",
    .describe = resnet_describe,
    .open = resnet_open,
    .close = resnet_close,
    .forward = resnet_forward,
    .backward = resnet_backward,
};
