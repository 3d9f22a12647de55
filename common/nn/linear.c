/* SPDX-License-Identifier: MIT
 *
 * The linear layer, the product under it, and what all backward passes have in common.
 */
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "sys/exit_codes.h"

size_t input_cast_bytes(const struct replica *replica)
{
    size_t elements = replica->batch_max * replica->model->input_count;

    return replica_type(replica) == ELEMENT_F32 ? 0 : elements * element_size(replica_type(replica));
}

int input_cast(const struct replica *replica, void *room, size_t batch, const void **x)
{
    enum element_type type = replica_type(replica);

    *x = type == ELEMENT_F32 ? replica->input : room;
    if (type != ELEMENT_F32)
        GPU_TRY(kernel_cast(type, room, ELEMENT_F32, replica->input, batch * replica->model->input_count,
                            replica->compute));
    return EXIT_OK;
}

/* A row-major matrix is its transpose in column-major, so C^T = op(B)^T op(A)^T: the operands in turned order. */
int product_enqueue(const struct replica *replica, const struct product *p)
{
    static const float alpha = 1;
    cudaDataType_t type = element_blas_type(replica_type(replica));
    cudaDataType_t type_c = p->c_is_float ? CUDA_R_32F : type;
    int ld_a = (int)(p->op_a == CUBLAS_OP_N ? p->k : p->rows), ld_b = (int)(p->op_b == CUBLAS_OP_N ? p->columns : p->k);

    GPU_TRY(cublasGemmEx(replica->blas, p->op_b, p->op_a, (int)p->columns, (int)p->rows, (int)p->k, &alpha, p->b, type,
                         ld_b, p->a, type, ld_a, &p->beta, p->c, type_c, (int)p->columns, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT));
    return EXIT_OK;
}

int products_enqueue(const struct replica *replica, const struct product *p, const struct batch_of_products *batch)
{
    static const float alpha = 1;
    cudaDataType_t type = element_blas_type(replica_type(replica));
    int ld_a = (int)(p->op_a == CUBLAS_OP_N ? p->k : p->rows), ld_b = (int)(p->op_b == CUBLAS_OP_N ? p->columns : p->k);

    GPU_TRY(cublasGemmStridedBatchedEx(replica->blas, p->op_b, p->op_a, (int)p->columns, (int)p->rows, (int)p->k, &alpha, p->b,
                                       type, ld_b, (long long)batch->stride_b, p->a, type, ld_a, (long long)batch->stride_a,
                                       &p->beta, p->c, type, (int)p->columns, (long long)batch->stride_c, (int)batch->count,
                                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return EXIT_OK;
}

int backward_begin(const struct backward *pass)
{
    struct replica *replica = pass->replica;

    if (pass->batch == 0 && !pass->accumulate)
        GPU_TRY(cudaMemsetAsync(replica->gradients, 0, replica->model->flat_bytes, replica->compute));
    return EXIT_OK;
}

int backward_ready(const struct backward *pass, int index)
{
    return pass->ready ? pass->ready(pass->context, index) : EXIT_OK;
}

int linear_forward(const struct replica *replica, void *y, const void *x, size_t rows, int weight)
{
    const size_t *shape = replica->model->parameters[weight].shape;
    const struct product product = {
        y, x, replica_parameter(replica, weight), CUBLAS_OP_N, CUBLAS_OP_T, rows, shape[0], shape[1], 0};

    return rows ? product_enqueue(replica, &product) : EXIT_OK;
}

int linear_backward(const struct backward *pass, void *dx, const void *dy, const void *x, size_t rows, int weight,
                    bool has_bias)
{
    struct replica *replica = pass->replica;
    size_t out = replica->model->parameters[weight].shape[0], in = replica->model->parameters[weight].shape[1];
    const struct product to_weight = {replica_gradient(replica, weight), dy, x, CUBLAS_OP_T, CUBLAS_OP_N, out, in, rows,
                                      pass->accumulate ? 1 : 0};
    const struct product to_input = {dx,  dy, replica_parameter(replica, weight), CUBLAS_OP_N, CUBLAS_OP_N, rows, in,
                                     out, 0};

    if (has_bias) {
        if (rows)
            GPU_TRY(kernel_column_sums(replica_type(replica), replica_gradient(replica, weight + 1), dy, rows, out,
                                       pass->accumulate, replica->compute));
        TRY(backward_ready(pass, weight + 1));
    }
    if (rows)
        TRY(product_enqueue(replica, &to_weight));
    TRY(backward_ready(pass, weight));
    return dx && rows ? product_enqueue(replica, &to_input) : EXIT_OK;
}
